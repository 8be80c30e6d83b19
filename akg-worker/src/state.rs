//! Refusing shared objects that can remember something from call to call.
//!
//! What a kernel computes follows from its tensors. Data that is written while it runs would let it know which call it is, or
//! what an earlier one had. So a shared object may have read-only data only, beside what compiler and linker put there for
//! themselves, and uses no function and no data of a library that remembers for it. What a plan needs to keep within a call is scratch.

use std::collections::BTreeSet;

use akg_core::verdict::{Failure, FailureKind};

use crate::elf::{Elf, Section, Symbol};

/// Sections that the linker writes to while it loads, and nobody after that.
const LINKER: [&str; 9] = [
    ".dynamic",
    ".got",
    ".got.plt",
    ".init_array",
    ".fini_array",
    ".preinit_array",
    ".ctors",
    ".dtors",
    ".tm_clone_table",
];

/// Symbols of compiler and linker in writable sections: whether the end was reached, handles, marks of sections, the address of
/// the function for exceptions, and what makes the standard streams ready.
const TOOLCHAIN: [&str; 8] = [
    "__dso_handle",
    "__TMC_END__",
    "__data_start",
    "_edata",
    "__bss_start",
    "_end",
    STREAMS,
    "data_start",
];
const TOOLCHAIN_STEMS: [&str; 2] = ["completed.", "DW.ref."];

/// Bytes of a symbol of the toolchain at most, and of a section beside its symbols: what aligning takes.
const MOST_TOOLCHAIN: u64 = 8;
const MOST_UNNAMED: u64 = 64;

/// Functions of the C and C++ libraries that remember something from one call to the next, or find one that does.
const REMEMBERING: [&str; 54] = [
    "rand",
    "srand",
    "random",
    "srandom",
    "initstate",
    "setstate",
    "drand48",
    "lrand48",
    "mrand48",
    "srand48",
    "seed48",
    "lcong48",
    "strtok",
    "hcreate",
    "hsearch",
    "pthread_key_create",
    "pthread_setspecific",
    "tss_create",
    "tss_set",
    "shmget",
    "shmat",
    "ecvt",
    "fcvt",
    "strerror",
    "strsignal",
    "asctime",
    "ctime",
    "gmtime",
    "localtime",
    "tmpnam",
    "ttyname",
    "getdate",
    "crypt",
    "mbrtowc",
    "mbtowc",
    "wctomb",
    "mblen",
    "mallopt",
    "setvbuf",
    "setbuf",
    "setbuffer",
    "setlinebuf",
    "on_exit",
    "__cxa_at_quick_exit",
    "getopt",
    "getopt_long",
    "dlsym",
    "dlvsym",
    "dlopen",
    "dlmopen",
    "_ZSt13set_terminatePFvvE",
    "_ZSt14set_unexpectedPFvvE",
    "_ZSt15set_new_handlerPFvvE",
    "_ZNSt6locale6globalERKS_",
];

/// Functions for the end of a process, which a linker puts into the shared object itself, and the one that they call. What makes the
/// standard streams ready calls it, too.
const AT_EXIT: [&str; 2] = ["atexit", "at_quick_exit"];
const REGISTERS_EXIT: &str = "__cxa_atexit";
const STREAMS: &str = "_ZStL8__ioinit";

/// Data of libraries that nobody writes, or that a kernel may print to.
const CONSTANTS: [&str; 5] = [
    "stdout",
    "stderr",
    "__libc_single_threaded",
    "__stack_chk_guard",
    "_ZSt7nothrow",
];
/// The beginnings of names of tables that compilers make of types.
const TYPES: [&str; 4] = ["_ZTV", "_ZTI", "_ZTS", "_ZTT"];

/// The beginning of mangled names in the C++ library's own namespace.
const STATIC_LIBRARY: &str = "_ZN10__cxxabiv1";

/// Names in the evidence at most.
const MOST_NAMED: usize = 8;

/// Why a shared object is not loaded, if it could keep state. Bytes that are no object file are left to who loads them.
pub(crate) fn check(bytes: &[u8]) -> Option<Failure> {
    let elf = Elf::new(bytes)?;
    let (symbols, protected) = (elf.symbols(), elf.protected());
    let mut kept = BTreeSet::new();
    for section in elf.sections() {
        let of_linker = LINKER.contains(&section.name);
        let is_protected = protected
            .iter()
            .any(|range| range.start <= section.addresses.start && section.addresses.end <= range.end);
        let is_state = section.is_loaded
            && section.is_writable
            && !of_linker
            && (!is_protected || section.is_per_thread);
        if is_state {
            kept.extend(state_in(&section, &symbols));
        }
    }
    if !kept.is_empty() {
        let of_library = kept.iter().any(|name| name.contains(STATIC_LIBRARY));
        let advice = if of_library {
            "the C++ library is linked statically; set CXX to a compiler that links the shared one"
        } else {
            "compute it in each call, make it `const`, or declare a scratch tensor"
        };
        let evidence = format!(
            "the shared object has data that outlives a call: {}; {advice}",
            listed(&kept)
        );
        return Some(Failure::new(FailureKind::KeepsState, evidence));
    }
    let has_streams = symbols.iter().any(|s| s.name == STREAMS);
    let (mut called, mut used) = (BTreeSet::new(), BTreeSet::new());
    for symbol in &symbols {
        let name = symbol.name.split('@').next().unwrap_or(symbol.name);
        let is_exit = AT_EXIT.contains(&name) || name == REGISTERS_EXIT && !has_streams;
        if is_exit {
            called.insert(format!("`{name}`"));
        }
        if !symbol.is_import() {
            continue;
        }
        let is_constant = CONSTANTS.contains(&name) || TYPES.iter().any(|stem| name.starts_with(stem));
        if REMEMBERING.contains(&name) {
            called.insert(format!("`{name}`"));
        } else if symbol.is_data && !is_constant {
            used.insert(format!("`{name}`"));
        }
    }
    let does = match (called.is_empty(), used.is_empty()) {
        (true, true) => return None,
        (false, _) => format!("calls what remembers from call to call: {}", listed(&called)),
        (true, false) => format!("uses data of a library, which outlives a call: {}", listed(&used)),
    };
    let evidence = format!("the shared object {does}; compute it from the inputs");
    Some(Failure::new(FailureKind::KeepsState, evidence))
}

/// What a writable section has beside the data of the toolchain.
fn state_in(section: &Section<'_>, symbols: &[Symbol<'_>]) -> Vec<String> {
    let own: BTreeSet<(&str, u64)> = symbols
        .iter()
        .filter(|s| s.section == section.number && s.size > 0 && !s.name.is_empty())
        .map(|s| (s.name, s.size))
        .collect();
    let of_toolchain = |name: &str, size: u64| {
        let known = TOOLCHAIN.contains(&name) || TOOLCHAIN_STEMS.iter().any(|stem| name.starts_with(stem));
        known && size <= MOST_TOOLCHAIN
    };
    let kept = own.iter().filter(|(name, size)| !of_toolchain(name, *size));
    let mut kept: Vec<String> = kept
        .map(|(name, size)| format!("`{name}` ({size} bytes of `{}`)", section.name))
        .collect();
    let bytes = section.addresses.end - section.addresses.start;
    let named: u64 = own.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
    if kept.is_empty() && bytes > named.saturating_add(MOST_UNNAMED) {
        kept.push(format!("{bytes} bytes of `{}`", section.name));
    }
    kept
}

/// The first of them, for people.
fn listed(names: &BTreeSet<String>) -> String {
    let mut list: Vec<&str> = names.iter().take(MOST_NAMED).map(String::as_str).collect();
    if names.len() > MOST_NAMED {
        list.push("and others");
    }
    list.join(", ")
}
