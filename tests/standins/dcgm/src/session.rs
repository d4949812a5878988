//! What one connection has of an engine: groups, field groups, watches, and the values that were sampled for them.
//!
//! An engine samples a watched field in the period of its watch, counted from when the watch began, and whenever an
//! update is demanded. What it gives out is the last sample, with the time of that; before the first there is none.

use std::collections::{BTreeMap, BTreeSet};

use wattscribe_standins::{
    Blank, BlankKind, DcgmReturn, DcgmScript, EntityField, Scene, Stamp, Value,
};

use crate::abi::{ENTITY_GROUP_CPU, EntityPair, FLAG_LIVE_DATA, Payload};

/// What belongs to a connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    groups: BTreeMap<usize, Vec<EntityPair>>,
    field_groups: BTreeMap<usize, FieldGroup>,
    /// Watches by group and field group.
    watches: BTreeMap<(usize, usize), Watch>,
    /// When an update was last demanded, in microseconds since 1970.
    updated_us: Option<i64>,
    /// The time stamp that a field of an entity had last.
    stamps: BTreeMap<(u32, u16), i64>,
}

#[derive(Debug)]
struct FieldGroup {
    name: String,
    fields: Vec<u16>,
}

#[derive(Debug, Clone, Copy)]
struct Watch {
    since_us: i64,
    period_us: i64,
}

/// A value as it is handed out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Latest {
    /// The entity that it is stamped with.
    pub(crate) entity: u32,
    pub(crate) status: DcgmReturn,
    /// In microseconds since 1970, 0 where nothing was sampled.
    pub(crate) ts_us: i64,
    pub(crate) payload: Payload,
}

impl Session {
    pub(crate) fn create_group(&mut self, ids: &mut usize) -> usize {
        *ids += 1;
        self.groups.insert(*ids, Vec::new());
        *ids
    }

    pub(crate) fn add(
        &mut self,
        script: &DcgmScript,
        group: usize,
        pair: EntityPair,
    ) -> Result<(), DcgmReturn> {
        let members = self.groups.get_mut(&group).ok_or(DcgmReturn::NotConfigured)?;
        let is_known = pair.group == ENTITY_GROUP_CPU
            && script.entities.iter().any(|entity| entity.id == pair.entity);
        if !is_known || members.contains(&pair) {
            return Err(DcgmReturn::BadParam);
        }
        members.push(pair);
        Ok(())
    }

    /// Its watches end with it.
    pub(crate) fn destroy_group(&mut self, group: usize) -> Result<(), DcgmReturn> {
        self.groups.remove(&group).ok_or(DcgmReturn::NotConfigured)?;
        self.watches.retain(|(of, _), _| *of != group);
        Ok(())
    }

    pub(crate) fn create_field_group(
        &mut self,
        ids: &mut usize,
        name: &str,
        fields: Vec<u16>,
    ) -> Result<usize, DcgmReturn> {
        if fields.is_empty() {
            return Err(DcgmReturn::BadParam);
        }
        if self.field_groups.values().any(|group| group.name == name) {
            return Err(DcgmReturn::DuplicateKey);
        }
        *ids += 1;
        self.field_groups.insert(*ids, FieldGroup { name: name.to_owned(), fields });
        Ok(*ids)
    }

    /// Its watches end with it.
    pub(crate) fn destroy_field_group(&mut self, fields: usize) -> Result<(), DcgmReturn> {
        self.field_groups.remove(&fields).ok_or(DcgmReturn::NoData)?;
        self.watches.retain(|(_, of), _| *of != fields);
        Ok(())
    }

    /// Watches, unless the script refuses one of the fields. A period that is not positive is refused as well: there
    /// is a call for ending a watch.
    pub(crate) fn watch(
        &mut self,
        scene: &Scene<DcgmScript>,
        group: usize,
        fields: usize,
        period_us: i64,
    ) -> Result<(), DcgmReturn> {
        let members = self.groups.get(&group).ok_or(DcgmReturn::NotConfigured)?;
        let field_group = self.field_groups.get(&fields).ok_or(DcgmReturn::BadParam)?;
        if period_us <= 0 {
            return Err(DcgmReturn::BadParam);
        }
        if members.is_empty() {
            return Err(DcgmReturn::GroupIsEmpty);
        }
        let refused =
            field_group.fields.iter().find_map(|field| scene.script.watch_refused.get(field));
        if let Some(refused) = refused {
            return Err(*refused);
        }
        self.watches.insert((group, fields), Watch { since_us: scene.unix_us, period_us });
        Ok(())
    }

    pub(crate) fn unwatch(&mut self, group: usize, fields: usize) -> Result<(), DcgmReturn> {
        self.watches.remove(&(group, fields)).map(drop).ok_or(DcgmReturn::BadParam)
    }

    pub(crate) fn update(&mut self, scene: &Scene<DcgmScript>) {
        self.updated_us = Some(scene.unix_us);
    }

    /// The last sample of every field of every entity, entity by entity.
    pub(crate) fn latest(
        &mut self,
        scene: &Scene<DcgmScript>,
        pairs: &[EntityPair],
        fields: &[u16],
        flags: u32,
    ) -> Vec<Latest> {
        let mut found = Vec::with_capacity(pairs.len() * fields.len());
        for pair in pairs {
            found.extend(fields.iter().map(|field| self.one(scene, *pair, *field, flags)));
        }
        found
    }

    fn one(
        &mut self,
        scene: &Scene<DcgmScript>,
        pair: EntityPair,
        field: u16,
        flags: u32,
    ) -> Latest {
        let nothing = |status| Latest {
            entity: pair.entity,
            status,
            ts_us: 0,
            payload: Payload::blank(Blank::Double, BlankKind::Blank),
        };
        let Some(sampled_us) = self.sampled_us(scene, pair, field) else {
            return nothing(DcgmReturn::NotWatched);
        };
        let Some(sampled_us) = sampled_us else { return nothing(DcgmReturn::NoData) };
        let entities = &scene.script.entities;
        let Some(entity) = entities.iter().find(|entity| entity.id == pair.entity) else {
            return nothing(DcgmReturn::NoData);
        };
        let here = entity.fields.iter().find(|at| at.field == field);
        // An engine has no live value of a field that is watched, and no value of one that is not measured; it says
        // so in the value and calls it a success.
        let Some(here) = here.filter(|_| flags & FLAG_LIVE_DATA == 0) else {
            let kind = if here.is_some() { BlankKind::Blank } else { BlankKind::NotSupported };
            let payload = Payload::blank(Blank::Double, kind);
            return Latest { payload, ts_us: sampled_us, ..nothing(DcgmReturn::Ok) };
        };
        let ts_us = match here.stamp {
            Stamp::Advancing => sampled_us,
            Stamp::Still => *self.stamps.get(&(pair.entity, field)).unwrap_or(&sampled_us),
            Stamp::AtUs(at) => at,
        };
        self.stamps.insert((pair.entity, field), ts_us);
        // A series is read where the sample was taken. Stamps of the script's own have no place in it.
        let at_us = if let Stamp::AtUs(_) = here.stamp { sampled_us } else { ts_us };
        let Some(payload) = payload(here, seconds_at(scene, at_us)) else {
            return nothing(DcgmReturn::NoData);
        };
        let entity = here.stamped_entity.unwrap_or(pair.entity);
        Latest { entity, status: here.status, ts_us, payload }
    }

    /// When a field of an entity was last sampled; nothing where it is not watched, and none where it is and was not
    /// sampled yet.
    fn sampled_us(
        &self,
        scene: &Scene<DcgmScript>,
        pair: EntityPair,
        field: u16,
    ) -> Option<Option<i64>> {
        let watches = self.watches.iter().filter(|((group, fields), _)| {
            self.groups.get(group).is_some_and(|members| members.contains(&pair))
                && self.field_groups.get(fields).is_some_and(|of| of.fields.contains(&field))
        });
        let samples: BTreeSet<Option<i64>> = watches
            .map(|(_, watch)| {
                let passed = (scene.unix_us - watch.since_us) / watch.period_us;
                let periodic = (passed > 0).then(|| watch.since_us + passed * watch.period_us);
                let demanded = self.updated_us.filter(|at| *at >= watch.since_us);
                periodic.max(demanded)
            })
            .collect();
        samples.last().copied()
    }
}

/// The time of a sample on the clock of the series.
fn seconds_at(scene: &Scene<DcgmScript>, at_us: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a difference of hours, in microseconds")]
    let ago_s = (scene.unix_us - at_us) as f64 / 1e6;
    scene.seconds - ago_s
}

/// What a field holds at a time; none where its series has nothing.
fn payload(field: &EntityField, seconds: f64) -> Option<Payload> {
    Some(match &field.value {
        Value::Double(series) => Payload::Double(series.at(seconds)?),
        Value::Int64(number) => Payload::Int64(*number),
        Value::Text(text) => Payload::Text(text.clone()),
        Value::Blank { kind, blank } => Payload::blank(*blank, *kind),
    })
}

#[cfg(test)]
mod tests;
