//! The checksum of a Parquet file, in its footer. Pages of Parquet have places for checksums, which the library does
//! not fill, and footers have none: a flipped bit can give another number, or no number, instead of a fault.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use parquet::file::metadata::FileMetaData;

/// The key in the footer. Its value is the CRC-32 (of ISO-HDLC, as in zip and PNG) of the file as it is with [`BLANK`]
/// there, in hexadecimal.
pub(super) const KEY: &str = "wattscribe.crc32";

/// What the footer is written with.
pub(super) const BLANK: &str = "00000000";

/// Who wrote a file, and so whether the checksum is of it: other tools keep the keys of files that they rewrite.
pub(super) const CREATED_BY: &str = concat!("wattscribe version ", env!("CARGO_PKG_VERSION"));

/// Read at a time.
const BLOCK_BYTES: usize = 1 << 18;

/// At the end of a Parquet file: how long the footer is, and `PAR1`.
const TAIL_BYTES: u64 = 8;

/// Whether a file has a checksum of its own.
pub(super) fn is_in(footer: &FileMetaData) -> bool {
    footer.created_by().is_some_and(|tool| tool.starts_with("wattscribe version "))
}

/// Puts the checksum into a complete file, which is open for reading too.
pub(super) fn put(file: &File) -> io::Result<()> {
    let place = place(file)?;
    let value = of_file(file, &place)?;
    file.write_all_at(value.as_bytes(), place.start)
}

/// The checksum of a file, and the one that it says it has: unless they are the same, it is damaged.
pub(super) fn compare(file: &File) -> io::Result<(String, String)> {
    let place = place(file)?;
    let mut said = [0; BLANK.len()];
    file.read_exact_at(&mut said, place.start)?;
    Ok((of_file(file, &place)?, String::from_utf8_lossy(&said).into_owned()))
}

/// Where the value under [`KEY`] is.
fn place(file: &File) -> io::Result<Range<u64>> {
    let missing = || io::Error::new(io::ErrorKind::InvalidData, format!("no {KEY} in the footer"));
    let tail_at = file.metadata()?.len().checked_sub(TAIL_BYTES).ok_or_else(missing)?;
    let mut length = [0; 4];
    file.read_exact_at(&mut length, tail_at)?;
    let footer_at = tail_at.checked_sub(u32::from_le_bytes(length).into()).ok_or_else(missing)?;
    let mut footer = vec![0; u32::from_le_bytes(length) as usize];
    file.read_exact_at(&mut footer, footer_at)?;
    // Thrift's compact protocol: the value is the next field after the key, a text of eight bytes.
    let pair = [KEY.as_bytes(), &[0x18, BLANK.len() as u8]].concat();
    // Texts of rows may be in the footer too, as least and greatest of a column; they come before.
    let at = footer.windows(pair.len()).rposition(|at| at == pair).ok_or_else(missing)?;
    let start = footer_at + (at + pair.len()) as u64;
    Ok(start..start + BLANK.len() as u64)
}

/// The checksum of a file as if it had [`BLANK`] at a place.
fn of_file(file: &File, place: &Range<u64>) -> io::Result<String> {
    let mut crc = crc32fast::Hasher::new();
    let mut block = vec![0; BLOCK_BYTES];
    let mut sum = |Range { start: mut at, end }: Range<u64>, crc: &mut crc32fast::Hasher| {
        while at < end {
            let wanted = BLOCK_BYTES.min(usize::try_from(end - at).unwrap_or(BLOCK_BYTES));
            file.read_exact_at(&mut block[..wanted], at)?;
            crc.update(&block[..wanted]);
            at += wanted as u64;
        }
        io::Result::Ok(())
    };
    sum(0..place.start, &mut crc)?;
    crc.update(BLANK.as_bytes());
    sum(place.end..file.metadata()?.len(), &mut crc)?;
    Ok(format!("{:08x}", crc.finalize()))
}
