//! One piece of a recording, put in the order of its scrapes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::mark::{SampleMark, ScrapeMark, SocketMark};
use crate::{CpuSample, ScrapeRecord};

/// What rules take of one piece.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// The targets, by name.
    pub targets: Vec<TargetPiece>,
    /// What could not be read and did not stop the rest: each a line for the user.
    pub warnings: Vec<String>,
}

/// Its part of one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetPiece {
    /// The name.
    pub target: Arc<str>,
    /// The scrapes, by their numbers.
    pub scrapes: Vec<ScrapeMark>,
    /// What [`SampleMark::series`] stands for.
    pub sample_series: Vec<SampleSeries>,
    /// The samples, by the numbers of their scrapes.
    pub samples: Vec<SampleMark>,
    /// What [`SocketMark::series`] stands for.
    pub socket_series: Vec<SocketSeries>,
    /// The rows of sockets, by the numbers of their scrapes.
    pub sockets: Vec<SocketMark>,
}

/// A series of `readings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSeries {
    /// The metric.
    pub metric: Arc<str>,
    /// The labels as they are recorded.
    pub labels: Arc<str>,
}

/// A socket as one source measures it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSeries {
    /// The source.
    pub source: Arc<str>,
    /// The number of the socket.
    pub socket: u32,
}

impl TargetPiece {
    fn empty(target: &Arc<str>) -> TargetPiece {
        TargetPiece { target: Arc::clone(target), ..TargetPiece::default() }
    }

    /// A record of the journal alone, with those samples whose metric is wanted.
    pub fn of_record(record: &ScrapeRecord, wants: &dyn Fn(&str) -> bool) -> TargetPiece {
        let mut builder = Builder::default();
        builder.record(record, wants);
        builder.finish(Vec::new()).targets.pop().unwrap_or_default()
    }

    /// Puts everything in order. Rows come sorted by series, so that this mostly merges.
    fn sort(&mut self) {
        self.scrapes.sort_by_key(|scrape| scrape.seq);
        self.samples.sort_by_key(|sample| sample.seq);
        self.sockets.sort_by_key(|socket| socket.seq);
    }
}

/// Gathers the rows of a piece.
#[derive(Debug, Default)]
pub(super) struct Builder {
    places: HashMap<Arc<str>, usize>,
    targets: Vec<TargetPiece>,
    texts: HashSet<Arc<str>>,
    /// The numbers of series of records by target, metric and labels, where equal texts have been made one.
    series: HashMap<(usize, *const str, *const str), u32>,
}

impl Builder {
    /// The place of a target.
    pub(super) fn target(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let name = self.text(name);
        self.targets.push(TargetPiece::empty(&name));
        self.places.insert(name, self.targets.len() - 1);
        self.targets.len() - 1
    }

    /// One text for all that are equal.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// A target by its place.
    pub(super) fn at(&mut self, place: usize) -> &mut TargetPiece {
        &mut self.targets[place]
    }

    /// Adds a series of a target and gives its number. Whoever adds rows knows where a series ends.
    pub(super) fn sample_series(&mut self, place: usize, metric: &str, labels: &str) -> u32 {
        let series = SampleSeries { metric: self.text(metric), labels: self.text(labels) };
        let of_target = &mut self.at(place).sample_series;
        of_target.push(series);
        number_of_last(of_target)
    }

    /// The number of a socket of a target.
    pub(super) fn socket_series(&mut self, place: usize, source: &str, socket: u32) -> u32 {
        let is_it = |of: &SocketSeries| of.socket == socket && &*of.source == source;
        if let Some(known) = self.at(place).socket_series.iter().position(is_it) {
            return known as u32;
        }
        let series = SocketSeries { source: self.text(source), socket };
        let of_target = &mut self.at(place).socket_series;
        of_target.push(series);
        number_of_last(of_target)
    }

    /// Adds a record of the journal.
    pub(super) fn record(&mut self, record: &ScrapeRecord, wants: &dyn Fn(&str) -> bool) {
        let place = self.target(&record.scrape.target);
        self.at(place).scrapes.push(ScrapeMark::from(&record.scrape));
        for row in &record.cpu {
            self.socket_row(row);
        }
        for reading in record.readings.iter().filter(|reading| wants(&reading.metric)) {
            let series = self.known_series(place, &reading.metric, &reading.labels);
            let (seq, at_us, value) = (reading.scrape_seq, reading.at_us(), reading.value);
            self.at(place).samples.push(SampleMark { seq, series, at_us, value });
        }
    }

    fn known_series(&mut self, place: usize, metric: &str, labels: &str) -> u32 {
        let key = (place, Arc::as_ptr(&self.text(metric)), Arc::as_ptr(&self.text(labels)));
        if let Some(known) = self.series.get(&key) {
            return *known;
        }
        let series = self.sample_series(place, metric, labels);
        self.series.insert(key, series);
        series
    }

    /// Adds a row of `cpu_samples`.
    pub(super) fn socket_row(&mut self, row: &CpuSample) -> usize {
        let place = self.target(&row.hostname);
        let series = self.socket_series(place, &row.source, row.socket_id);
        self.at(place).sockets.push(SocketMark::of(row, series));
        place
    }

    /// The piece.
    pub(super) fn finish(mut self, warnings: Vec<String>) -> Piece {
        self.targets.iter_mut().for_each(TargetPiece::sort);
        self.targets.sort_by(|a, b| a.target.cmp(&b.target));
        Piece { targets: self.targets, warnings }
    }
}

/// Series of one target of one piece are far fewer than numbers.
fn number_of_last<T>(list: &[T]) -> u32 {
    (list.len() - 1) as u32
}
