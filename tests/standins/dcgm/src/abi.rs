//! The structures of `dcgm_structs.h` that go over the interface, with their layout checked when this is compiled.

use std::mem::offset_of;

use wattscribe_standins::{Blank, BlankKind};

/// The group of entities that are CPUs (`DCGM_FE_CPU`).
pub const ENTITY_GROUP_CPU: u32 = 7;

/// The handle of the engine inside the process.
pub const EMBEDDED_HANDLE: usize = 0x7fff_ffff;

/// Asks for a value from the driver in place of the sampled one (`DCGM_FV_FLAG_LIVE_DATA`).
pub const FLAG_LIVE_DATA: u32 = 1;

/// What stands in the version of a value that is to be filled: its size, and 2 above that.
pub const FIELD_VALUE_VERSION: u32 = 0x0200_1020;

/// Bytes of a value's union.
pub const UNION_BYTES: usize = 4096;

/// `dcgmFieldValue_v2`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FieldValue {
    /// Set by the caller, see [`FIELD_VALUE_VERSION`].
    pub version: u32,
    /// The group of the entity.
    pub entity_group: u32,
    /// The entity.
    pub entity: u32,
    /// The field.
    pub field: u16,
    /// A letter: `d` double, `i` integer, `s` text.
    pub field_type: u16,
    /// The return code of this value.
    pub status: i32,
    /// Nothing.
    pub unused: u32,
    /// When the engine measured it, in microseconds since 1970.
    pub ts_us: i64,
    /// The union.
    pub value: [u8; UNION_BYTES],
}

/// `dcgmGroupEntityPair_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityPair {
    /// The group of the entity.
    pub group: u32,
    /// The entity.
    pub entity: u32,
}

const _: () = {
    assert!(size_of::<FieldValue>() == 4128 && align_of::<FieldValue>() == 8);
    assert!(offset_of!(FieldValue, field) == 12 && offset_of!(FieldValue, field_type) == 14);
    assert!(offset_of!(FieldValue, status) == 16 && offset_of!(FieldValue, ts_us) == 24);
    assert!(offset_of!(FieldValue, value) == 32);
    assert!(size_of::<EntityPair>() == 8);
};

/// A value as the union holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Payload {
    Double(f64),
    Int64(i64),
    Text(String),
}

/// The longest text of a field, its terminator included (`DCGM_MAX_STR_LENGTH`).
const TEXT_BYTES: usize = 256;

impl Payload {
    /// The placeholder of a type. The texts are those of the `DCGM_STR_*` macros.
    pub(crate) fn blank(blank: Blank, kind: BlankKind) -> Self {
        let offset = kind as u8;
        match blank {
            Blank::Double => Payload::Double(140_737_488_355_328.0 + f64::from(offset)),
            Blank::Int64 => Payload::Int64(0x7fff_ffff_ffff_fff0 + i64::from(offset)),
            Blank::Int32 => Payload::Int64(0x7fff_fff0 + i64::from(offset)),
            Blank::Text => Payload::Text(
                match kind {
                    BlankKind::Blank => "<<<NULL>>>",
                    BlankKind::NotFound => "<<<NOT_FOUND>>>",
                    BlankKind::NotSupported => "<<<NOT_SUPPORTED>>>",
                    BlankKind::NotPermitted => "<<<NOT_PERM>>>",
                }
                .into(),
            ),
        }
    }

    /// The letter of its type.
    pub(crate) fn field_type(&self) -> u16 {
        u16::from(match self {
            Payload::Double(_) => b'd',
            Payload::Int64(_) => b'i',
            Payload::Text(_) => b's',
        })
    }

    /// Writes it into a union, and leaves the bytes behind it as they were.
    pub(crate) fn write(&self, union: &mut [u8; UNION_BYTES]) {
        let mut put = |bytes: &[u8]| union[..bytes.len()].copy_from_slice(bytes);
        match self {
            Payload::Double(number) => put(&number.to_ne_bytes()),
            Payload::Int64(number) => put(&number.to_ne_bytes()),
            Payload::Text(text) => {
                let bytes = text.bytes().take(TEXT_BYTES - 1).chain([0]);
                put(&bytes.collect::<Vec<u8>>());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_those_of_the_header() {
        use BlankKind::{Blank as Plain, NotFound, NotPermitted, NotSupported};
        let cases = [
            (Blank::Double, Plain, Payload::Double(140_737_488_355_328.0)),
            (Blank::Double, NotPermitted, Payload::Double(140_737_488_355_331.0)),
            (Blank::Int64, Plain, Payload::Int64(9_223_372_036_854_775_792)),
            (Blank::Int32, NotSupported, Payload::Int64(2_147_483_634)),
            (Blank::Text, NotFound, Payload::Text("<<<NOT_FOUND>>>".into())),
        ];
        for (blank, kind, expected) in cases {
            assert_eq!(Payload::blank(blank, kind), expected, "{blank:?} {kind:?}");
        }
    }

    #[test]
    fn text_is_cut_and_ended() {
        let mut union = [0xff; UNION_BYTES];
        Payload::Text("x".repeat(300)).write(&mut union);
        assert_eq!((union[254], union[255], union[256]), (b'x', 0, 0xff));
    }
}
