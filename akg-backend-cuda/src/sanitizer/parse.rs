//! What Compute Sanitizer prints. Each line of its own begins with `=========`; a finding is a line that says what was found,
//! and below it indented lines that say where. The last line counts the errors.

use akg_core::backend::Sanitizer;
use akg_core::verdict::{Failure, FailureKind};

/// What the tool's own lines begin with.
const MARK: &str = "=========";

/// Lines of a finding that are kept.
const MOST_LINES: usize = 8;

/// How a finding begins, by what was looked for. Everything else is a remark: what a program hit, warnings, the tool's own
/// errors.
const fn beginnings(sanitizer: Sanitizer) -> &'static [&'static str] {
    match sanitizer {
        Sanitizer::Memory => &["Invalid ", "Misaligned "],
        Sanitizer::Races => &["Error: Race reported"],
        Sanitizer::Initialization => &["Uninitialized "],
    }
}

/// What a run printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    /// The lines of each finding.
    findings: Vec<Vec<String>>,
    /// The errors that the tool counted; `None` if it did not come to its end.
    errors: Option<u64>,
    /// What it said beside.
    remarks: Vec<String>,
}

impl Log {
    /// Reads what was printed while the tool looked for something.
    pub(super) fn parse(text: &str, sanitizer: Sanitizer) -> Self {
        let mut log = Self {
            findings: Vec::new(),
            errors: None,
            remarks: Vec::new(),
        };
        let mut within = false;
        for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
            let said = line.trim();
            // A space sets a line off from the mark; more set it off from the line that it belongs to.
            if line.starts_with("  ") {
                if let Some(finding) = log.findings.last_mut().filter(|_| within) {
                    finding.push(said.to_owned());
                }
                continue;
            }
            within = beginnings(sanitizer).iter().any(|begin| said.starts_with(begin));
            if within {
                log.findings.push(vec![said.to_owned()]);
            } else if said.contains(" SUMMARY:") {
                log.errors = counted(said).or(log.errors);
            } else if !said.is_empty() && !said.starts_with("COMPUTE-SANITIZER") {
                log.remarks.push(said.to_owned());
            }
        }
        log
    }

    /// What the findings say of the candidate, if there are any. `tool` goes into the evidence.
    pub(super) fn failure(&self, tool: &str) -> Option<Failure> {
        let first = self.findings.first()?;
        let kind = match first.first()?.split(' ').next()? {
            "Uninitialized" => FailureKind::Uninitialized,
            "Error:" => FailureKind::Race,
            _ if first
                .iter()
                .any(|line| line.to_lowercase().contains("misaligned")) =>
            {
                FailureKind::Crashed
            }
            _ => FailureKind::OutOfBounds,
        };
        let lines: Vec<&str> = first.iter().take(MOST_LINES).map(String::as_str).collect();
        let mut evidence = format!("Compute Sanitizer ({tool}): {}", lines.join("\n  "));
        let all = self.errors.unwrap_or_default().max(self.findings.len() as u64);
        if all > 1 {
            evidence += &format!("\nand {} more", all - 1);
        }
        Some(Failure::new(kind, evidence))
    }

    /// Whether the tool came to its end and found nothing.
    pub(super) fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.errors == Some(0)
    }

    /// What the tool said beside findings, in one line.
    pub(super) fn remark(&self) -> String {
        self.remarks.join("; ")
    }
}

/// The number of errors in `ERROR SUMMARY: 1 error` and in `RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)`.
fn counted(summary: &str) -> Option<u64> {
    let words: Vec<&str> = summary.split_whitespace().collect();
    let (number, _) = words
        .iter()
        .zip(words.get(1..)?)
        .find(|(_, word)| word.starts_with("error"))?;
    number.trim_start_matches('(').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: &str = include_str!("../../tests/sanitizer/memcheck.txt");
    const RACES: &str = include_str!("../../tests/sanitizer/racecheck.txt");
    const READS: &str = include_str!("../../tests/sanitizer/initcheck.txt");
    const REFUSED: &str = include_str!("../../tests/sanitizer/not_supported.txt");

    #[test]
    fn a_finding_is_a_failure_with_the_kernel_and_the_address() {
        let cases = [
            (
                WRITES,
                Sanitizer::Memory,
                FailureKind::OutOfBounds,
                [
                    "Invalid __global__ write of size 4 bytes",
                    "at k+0x90",
                    "0x7f8a02000018",
                ],
                "and 5 more",
            ),
            (
                RACES,
                Sanitizer::Races,
                FailureKind::Race,
                [
                    "Write access at k+0x1a0",
                    "Read access at k+0x270",
                    "[124 hazards]",
                ],
                "and 1 more",
            ),
            (
                READS,
                Sanitizer::Initialization,
                FailureKind::Uninitialized,
                ["read of size 4 bytes", "at second+0x70", "0x7f8a02200000"],
                "and 3 more",
            ),
        ];
        for (text, sanitizer, kind, parts, more) in cases {
            let log = Log::parse(text, sanitizer);
            let failure = log.failure("tool").unwrap();
            assert_eq!(failure.kind, kind, "{log:?}");
            for part in parts.iter().chain([&more]) {
                assert!(failure.evidence.contains(part), "{part}: {}", failure.evidence);
            }
            assert!(!log.is_clean());
        }
    }

    #[test]
    fn only_a_counted_zero_is_clean() {
        let clean = |text| Log::parse(text, Sanitizer::Races).is_clean();
        assert!(clean(
            "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
        ));
        // Warnings are hazards of programs that know what they do.
        assert!(clean(
            "========= Warning: Race reported between Read access at k+0x10\n=========     and Write access at k+0x20 [1 \
             hazards]\n========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n"
        ));
        assert!(!clean(
            "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
        ));
        assert!(!clean("========= ERROR SUMMARY: 10 errors\n"));
        assert!(!clean("========= COMPUTE-SANITIZER\n"));
        assert!(!clean("ERROR SUMMARY: 0 errors\n"));
    }

    #[test]
    fn what_the_tool_refuses_is_no_finding() {
        for sanitizer in Sanitizer::ALL {
            let log = Log::parse(REFUSED, sanitizer);
            assert_eq!(log.failure("tool"), None);
            assert!(!log.is_clean());
            assert!(log.remark().contains("Device not supported"), "{log:?}");
        }
    }

    #[test]
    fn misaligned_accesses_are_what_the_device_dies_of() {
        let text = "========= Invalid __global__ read of size 16 bytes\n=========     at k+0x40\n=========     Access at \
                    0x7f8a02000004 is misaligned\n========= ERROR SUMMARY: 1 error\n";
        let failure = Log::parse(text, Sanitizer::Memory).failure("memcheck").unwrap();
        assert_eq!(failure.kind, FailureKind::Crashed);
        assert!(!failure.evidence.contains("more"), "{}", failure.evidence);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_and_findings_are_never_clean(
            text in "(=========( {0,5}(Invalid |Uninitialized |Error: Race reported|[A-Z]+ SUMMARY: [0-9]{0,30} errors?|[a-z ]{0,9}))?\n){0,9}"
        ) {
            for sanitizer in Sanitizer::ALL {
                let log = Log::parse(&text, sanitizer);
                proptest::prop_assert!(!(log.is_clean() && log.failure("tool").is_some()));
            }
        }
    }
}
