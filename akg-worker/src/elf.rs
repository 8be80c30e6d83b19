//! Reading object files of 64 bits, little-endian: sections and the symbols in them.
//!
//! The files are a candidate's. What is not as the format says is left out, and nothing is loaded.

use std::ops::Range;

const MAGIC: &[u8] = b"\x7fELF\x02\x01";
const SYMBOL_TABLE: u32 = 2;
const NO_BITS: u32 = 8;
const DYNAMIC_SYMBOLS: u32 = 11;
const UNDEFINED: usize = 0;

/// The size of a header of a section, of a segment, and of a symbol.
const SECTION: usize = 64;
const SEGMENT: usize = 56;
const SYMBOL: usize = 24;

/// An object file.
#[derive(Debug, Clone, Copy)]
pub struct Elf<'a> {
    bytes: &'a [u8],
}

/// A section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'a> {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: &'a str,
    /// Whether it is written to while the program runs.
    pub is_writable: bool,
    /// Whether it is in memory while the program runs.
    pub is_loaded: bool,
    /// Whether each thread has a copy of it.
    pub is_per_thread: bool,
    /// Its addresses.
    pub addresses: Range<u64>,
    kind: u32,
    /// Its bytes in the file.
    contents: Range<usize>,
    /// The number of the section of names.
    link: usize,
}

/// The kind of symbols that name data.
const DATA: u8 = 1;

/// A symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// The number of its section.
    pub section: usize,
    /// Its size in bytes.
    pub size: u64,
    /// True if it names data.
    pub is_data: bool,
}

impl Symbol<'_> {
    /// Whether another file defines it.
    pub fn is_import(&self) -> bool {
        self.section == UNDEFINED
    }
}

impl<'a> Elf<'a> {
    /// The object file in these bytes; `None` if they are none.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.starts_with(MAGIC).then_some(Self { bytes })
    }

    /// Its sections.
    pub fn sections(&self) -> Vec<Section<'a>> {
        let (start, count, names) = (self.u64(0x28), self.u16(0x3c), self.u16(0x3e));
        let headers: Vec<_> = (0..count.unwrap_or(0))
            .map_while(|number| start?.checked_add(number.checked_mul(SECTION)?))
            .enumerate()
            .map_while(|(number, at)| self.section(number, at))
            .collect();
        let Some((_, table)) = names.and_then(|names| headers.get(names)) else {
            return Vec::new();
        };
        let table = table.contents.clone();
        let named = headers.iter().map(|(name, section)| Section {
            name: self.string(&table, *name).unwrap_or(""),
            ..section.clone()
        });
        named.collect()
    }

    /// The place of a section's name and the section.
    fn section(&self, number: usize, at: usize) -> Option<(usize, Section<'a>)> {
        let header = self.bytes.get(at..at.checked_add(SECTION)?)?;
        let header = Elf { bytes: header };
        let (flags, address, size) = (header.u64(8)?, header.u64(16)? as u64, header.u64(32)?);
        let (kind, offset) = (header.u32(4)? as u32, header.u64(24)?);
        let length = if kind == NO_BITS { 0 } else { size };
        let section = Section {
            number,
            name: "",
            is_writable: flags & 1 != 0,
            is_loaded: flags & 2 != 0,
            is_per_thread: flags & 0x400 != 0,
            addresses: address..address.checked_add(size as u64)?,
            kind,
            contents: offset..offset.checked_add(length)?,
            link: header.u32(40)?,
        };
        Some((header.u32(0)?, section))
    }

    /// The addresses that are made read-only when everything is in place.
    pub fn protected(&self) -> Vec<Range<u64>> {
        const RELRO: usize = 0x6474_e552;
        let (start, count) = (self.u64(0x20), self.u16(0x38));
        let segments = (0..count.unwrap_or(0)).map_while(|number| {
            let at = start?.checked_add(number.checked_mul(SEGMENT)?)?;
            Some(Elf {
                bytes: self.bytes.get(at..at.checked_add(SEGMENT)?)?,
            })
        });
        let range = |segment: Elf<'_>| {
            let (address, size) = (segment.u64(16)? as u64, segment.u64(40)? as u64);
            Some(address..address.checked_add(size)?)
        };
        segments
            .filter(|s| s.u32(0) == Some(RELRO))
            .filter_map(range)
            .collect()
    }

    /// The symbols of all tables.
    pub fn symbols(&self) -> Vec<Symbol<'a>> {
        let sections = self.sections();
        let tables = sections
            .iter()
            .filter(|s| [SYMBOL_TABLE, DYNAMIC_SYMBOLS].contains(&s.kind));
        let mut symbols = Vec::new();
        for table in tables {
            let names = sections
                .get(table.link)
                .map(|names| names.contents.clone())
                .unwrap_or_default();
            let entries = self.bytes.get(table.contents.clone()).unwrap_or_default();
            for entry in entries.as_chunks::<SYMBOL>().0 {
                let entry = Elf { bytes: entry };
                let fields = (entry.u32(0), entry.bytes.get(4), entry.u16(6), entry.u64(16));
                let (Some(name), Some(kind), Some(section), Some(size)) = fields else {
                    continue;
                };
                symbols.push(Symbol {
                    name: self.string(&names, name).unwrap_or(""),
                    section,
                    size: size as u64,
                    is_data: kind & 0xf == DATA,
                });
            }
        }
        symbols
    }

    /// The string at a place of a table.
    fn string(&self, table: &Range<usize>, at: usize) -> Option<&'a str> {
        let bytes = self.bytes.get(table.clone())?.get(at..)?;
        let length = bytes.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(bytes.get(..length)?).ok()
    }

    fn u16(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(usize::from(u16::from_le_bytes(*bytes)))
    }

    fn u32(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    }

    fn u64(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    }
}
