//! The structures of `nvml.h` that go over the interface, with their layout checked when this is compiled.

use std::ffi::c_char;
use std::mem::offset_of;

use wattscribe_standins::ValueType;

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FieldValue {
    /// Which field, set by the caller.
    pub field_id: u32,
    /// In which scope, set by the caller.
    pub scope_id: u32,
    /// When it was read, in microseconds since 1970.
    pub timestamp_us: i64,
    /// How long reading it took, in microseconds.
    pub latency_us: i64,
    /// Which of the union's members is set.
    pub value_type: u32,
    /// The return code of this field.
    pub result: u32,
    /// The union.
    pub value: [u8; 8],
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PciInfo {
    /// The address with a domain of four digits, such as `0008:01:00.0`.
    pub bus_id_legacy: [c_char; 16],
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u32,
    /// The device.
    pub device: u32,
    /// Device id and vendor id.
    pub pci_device_id: u32,
    /// Those of the subsystem.
    pub pci_subsystem_id: u32,
    /// The address with a domain of eight digits.
    pub bus_id: [c_char; 32],
}

const _: () = {
    assert!(size_of::<FieldValue>() == 40 && align_of::<FieldValue>() == 8);
    assert!(offset_of!(FieldValue, scope_id) == 4 && offset_of!(FieldValue, timestamp_us) == 8);
    assert!(offset_of!(FieldValue, latency_us) == 16 && offset_of!(FieldValue, value_type) == 24);
    assert!(offset_of!(FieldValue, result) == 28 && offset_of!(FieldValue, value) == 32);
    assert!(size_of::<PciInfo>() == 68 && offset_of!(PciInfo, domain) == 16);
    assert!(offset_of!(PciInfo, pci_subsystem_id) == 32 && offset_of!(PciInfo, bus_id) == 36);
};

/// What stands in the bytes of the union that a type does not cover: whoever reads more than the type says gets a
/// number that no GPU has.
const BEYOND: u8 = 0xA5;

/// A number as the union holds it. Integers are cut, and kept within their type's range.
#[expect(clippy::cast_possible_truncation, reason = "a cast from a double keeps within the range")]
#[expect(clippy::cast_sign_loss, reason = "a cast from a double keeps within the range")]
pub(crate) fn union(value_type: ValueType, number: f64) -> [u8; 8] {
    let mut bytes = [BEYOND; 8];
    let mut put = |value: &[u8]| bytes[..value.len()].copy_from_slice(value);
    match value_type {
        ValueType::Double => put(&number.to_ne_bytes()),
        ValueType::Uint32 => put(&(number as u32).to_ne_bytes()),
        ValueType::UnsignedLong | ValueType::Uint64 => put(&(number as u64).to_ne_bytes()),
        ValueType::Int64 | ValueType::Unheard => put(&(number as i64).to_ne_bytes()),
        ValueType::Int32 => put(&(number as i32).to_ne_bytes()),
        ValueType::Uint16 => put(&(number as u16).to_ne_bytes()),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_fills_its_own_bytes_only() {
        let cases = [
            (ValueType::Double, 0.5, 0x3fe0_0000_0000_0000_u64),
            (ValueType::Uint32, 539_000.9, 0xa5a5_a5a5_0008_3978),
            (ValueType::Uint32, 1e12, 0xa5a5_a5a5_ffff_ffff),
            (ValueType::UnsignedLong, 4_294_967_296.0, 0x0000_0001_0000_0000),
            (ValueType::Int32, -1.0, 0xa5a5_a5a5_ffff_ffff),
            (ValueType::Uint16, 500.0, 0xa5a5_a5a5_a5a5_01f4),
        ];
        for (value_type, number, expected) in cases {
            let bytes = u64::from_le_bytes(union(value_type, number));
            assert_eq!(bytes, expected, "{value_type:?} {number}");
        }
    }
}
