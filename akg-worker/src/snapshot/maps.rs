//! The memory maps of a process, and which of them a candidate must leave as they are.

use std::fs;
use std::io;
use std::ops::Range;

use rustix::process::Pid;

/// The size and alignment of the heaps from which the C library serves threads.
const THREAD_HEAP: u64 = 64 << 20;

/// The maps of a process at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Maps(Vec<Region>);

/// One map.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Region {
    addresses: Range<u64>,
    /// `rwxp` or `rwxs`, with `-` for each right that is missing.
    rights: String,
    /// The offset, device and number of the file.
    file: String,
    /// The path of the file, or the name that the system gives to the memory.
    name: String,
}

impl Region {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let rights = fields.next()?.to_owned();
        let (offset, device, number) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self {
            addresses: address(start)?..address(end)?,
            rights,
            // Memory without a file has offsets of no meaning.
            file: match number {
                "0" => String::new(),
                _ => format!("{offset} {device} {number}"),
            },
            name: fields.next().unwrap_or_default().trim_start().to_owned(),
        })
    }

    fn is_anonymous(&self) -> bool {
        self.file.is_empty() && (self.name.is_empty() || self.name.starts_with("[anon"))
    }

    /// Whether it is memory that the C library gets and gives back: private, without a file, and not for code.
    fn is_heap(&self) -> bool {
        let is_memory = self.file.is_empty() && !self.name.starts_with("[v");
        is_memory && matches!(self.rights.as_str(), "rw-p" | "---p")
    }

    fn is_inaccessible(&self) -> bool {
        self.file.is_empty() && self.rights == "---p"
    }

    fn describe(&self) -> String {
        let Range { start, end } = &self.addresses;
        let name = match self.name.as_str() {
            "" => "anonymous memory",
            name => name,
        };
        format!(
            "{} bytes of {name} at {start:#x} with rights {}",
            end - start,
            self.rights
        )
    }
}

impl Maps {
    /// Reads the maps of a process.
    pub(crate) fn read(process: Pid) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{}/maps", process.as_raw_nonzero()))?;
        if text.is_empty() {
            // Its memory is gone, and soon the process.
            return Err(io::ErrorKind::NotFound.into());
        }
        let regions = text
            .lines()
            .map(|line| Region::parse(line).ok_or(io::ErrorKind::InvalidData));
        Ok(Self(regions.collect::<Result<_, _>>()?))
    }

    /// The path of the file that the code at an address is from, empty for code in memory; `None` where there is no code.
    pub(crate) fn code_at(&self, address: u64) -> Option<&str> {
        let mut code = self.0.iter().filter(|region| region.rights.contains('x'));
        let region = code.find(|region| region.addresses.contains(&address))?;
        Some(&region.name)
    }

    /// Returns true if a file is mapped whose name begins with one of these.
    pub(crate) fn has_file(&self, beginnings: &[&str]) -> bool {
        self.0.iter().any(|region| {
            let name = region.name.rsplit('/').next().unwrap_or_default();
            beginnings.iter().any(|beginning| name.starts_with(beginning))
        })
    }

    /// Names the first map that `now` lacks, has with other rights, or has beside these. The C library's memory may come
    /// and go. `loaded` says that a shared object was loaded since, whose files may be mapped as private memory.
    pub(crate) fn difference(&self, now: &Self, loaded: bool) -> Option<String> {
        let (before, after) = (self.fixed(), now.fixed());
        if before == after {
            return None;
        }
        if let Some(region) = before.iter().find(|region| !after.contains(region)) {
            return Some(format!("{} are no longer mapped", region.describe()));
        }
        let mut added = after.iter().filter(|region| {
            if before.contains(region) {
                return false;
            }
            let is_code = region.rights.contains('x');
            // Initialised memory of a shared object loses the right to be written.
            !(loaded && region.rights.ends_with('p') && !(is_code && region.is_anonymous()))
        });
        added
            .next()
            .map(|region| format!("{} were mapped", region.describe()))
    }

    /// The maps that are not the C library's memory.
    fn fixed(&self) -> Vec<&Region> {
        self.0.iter().filter(|region| !region.is_heap()).collect()
    }

    /// Names memory that was mapped since and is not the C library's.
    pub(crate) fn new_memory(&self, now: &Self) -> Option<String> {
        let is_writable = |region: &&Region| region.is_anonymous() && region.rights == "rw-p";
        now.0.iter().filter(is_writable).find_map(|region| {
            let known = self.0.iter().filter(is_writable).map(|r| &r.addresses);
            let new = first_outside(&region.addresses, known)?;
            (!now.is_thread_heap(new.start)).then(|| {
                format!(
                    "{} bytes of memory at {:#x} were mapped and not unmapped",
                    new.end - new.start,
                    new.start
                )
            })
        })
    }

    /// Whether the C library has made a heap for threads around an address: an aligned range of which a part is in use.
    fn is_thread_heap(&self, address: u64) -> bool {
        let start = address - address % THREAD_HEAP;
        self.covers(&(start..start + THREAD_HEAP), |region| {
            region.is_anonymous() && matches!(region.rights.as_str(), "rw-p" | "---p")
        })
    }

    /// Whether maps of this kind cover a range.
    fn covers(&self, range: &Range<u64>, kind: impl Fn(&Region) -> bool) -> bool {
        let maps = self.0.iter().filter(|r| kind(r)).map(|r| &r.addresses);
        first_outside(range, maps).is_none()
    }

    /// Whether a range is mapped without any right.
    pub(crate) fn is_guard(&self, range: &Range<u64>) -> bool {
        self.covers(range, Region::is_inaccessible)
    }

    /// Whether a range that is reserved for tensors has nothing but them and memory without rights.
    pub(crate) fn is_reserved(&self, range: &Range<u64>) -> bool {
        self.covers(range, |region| {
            region.is_inaccessible() || !region.file.is_empty()
        })
    }
}

/// The first part of a range that lies outside of others, which are sorted.
fn first_outside<'a>(range: &Range<u64>, others: impl Iterator<Item = &'a Range<u64>>) -> Option<Range<u64>> {
    let mut start = range.start;
    for other in others.filter(|other| other.end > range.start) {
        if other.start > start {
            return (start < range.end).then(|| start..other.start.min(range.end));
        }
        start = start.max(other.end);
    }
    (start < range.end).then_some(start..range.end)
}

/// The inaccessible memory directly below each map that holds one of these addresses of the calling process: the guards of
/// stacks.
pub(crate) fn guards_below(addresses: &[usize]) -> io::Result<Vec<Range<u64>>> {
    let maps = Maps::read(rustix::process::getpid())?.0;
    let page = rustix::param::page_size() as u64;
    let guards = addresses.iter().filter_map(|address| {
        let address = *address as u64;
        let stack = maps.iter().find(|region| region.addresses.contains(&address))?;
        let end = stack.addresses.start;
        let guard = maps.iter().find(|region| region.addresses.end == end)?;
        // The memory below may belong to something else from its second page on.
        guard.is_inaccessible().then(|| end.saturating_sub(page)..end)
    });
    Ok(guards.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
10000-11000 r-xp 00000000 fe:01 12 /usr/bin/worker
11000-12000 rw-p 00001000 fe:01 12 /usr/bin/worker
20000-30000 rw-p 00000000 00:00 0 [heap]
40000-41000 ---p 00000000 00:00 0
41000-50000 rw-p 00000000 00:00 0
8000000-8001000 rw-p 00000000 00:00 0
8001000-c000000 ---p 00000000 00:00 0
";

    fn maps(text: &str) -> Maps {
        Maps(text.lines().map(|line| Region::parse(line).unwrap()).collect())
    }

    fn changed(from: &str, to: &str) -> Maps {
        assert!(BEFORE.contains(from));
        maps(&BEFORE.replace(from, to))
    }

    #[test]
    fn the_c_librarys_memory_comes_and_goes() {
        let before = maps(BEFORE);
        let grown = BEFORE
            .replace("20000-30000", "20000-38000")
            .replace("8001000", "8005000");
        let grown = maps(&grown);
        assert_eq!(before.difference(&grown, false), None);
        assert_eq!(before.new_memory(&grown), None);
        let mapped = changed("41000-50000", "41000-60000");
        assert_eq!(before.difference(&mapped, false), None);
        let text = before.new_memory(&mapped).unwrap();
        assert!(text.contains("65536 bytes of memory at 0x50000"), "{text}");
    }

    #[test]
    fn other_maps_stay() {
        let before = maps(BEFORE);
        let cases = [
            ("r-xp", "rwxp", "no longer mapped"),
            (
                "41000-50000 rw-p",
                "41000-50000 rwxp",
                "with rights rwxp were mapped",
            ),
            (
                "[heap]\n",
                "[heap]\n39000-3a000 rw-s 00000000 00:01 7 /memfd:x\n",
                "/memfd:x",
            ),
        ];
        for (from, to, expected) in cases {
            let text = before.difference(&changed(from, to), false).unwrap();
            assert!(text.contains(expected), "{text}");
        }
        let library = "[heap]\n39000-3a000 r-xp 00000000 fe:01 7 /usr/lib/x.so\n";
        let loaded = changed("[heap]\n", library);
        assert_eq!(before.difference(&loaded, true), None);
        assert!(before.difference(&loaded, false).is_some());
    }

    #[test]
    fn guards_stay_guards() {
        let guard = 0x40000..0x41000;
        assert!(maps(BEFORE).is_guard(&guard));
        assert!(!changed("40000-41000 ---p", "40000-41000 rw-p").is_guard(&guard));
        assert!(!changed("40000-41000 ---p", "40000-40800 ---p").is_guard(&guard));
        assert_eq!(
            first_outside(&(5..9), [&(0..6), &(7..20)].into_iter()),
            Some(6..7)
        );
        assert_eq!(first_outside(&(5..9), [&(0..6), &(6..20)].into_iter()), None);
    }

    #[test]
    fn the_stack_of_a_thread_has_a_guard() {
        let guards = std::thread::spawn(|| guards_below(&crate::team::own_stacks()).unwrap());
        assert!(!guards.join().unwrap().is_empty());
    }
}
