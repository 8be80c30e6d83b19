//! Bundles that somebody changed, on the road from their bytes to a verdict.

use std::io::Read as _;

use akg::bundle::Evidence;
use akg::digest::Digest;
use akg::source::{Artifact, Source};
use akg::verdict::Verdict;
use akg::verify::Judge;
use akg::{Bundle, Candidate, Dsl, Error, Result, Target, Task, Verifier as _};
use futures::executor::block_on;
use serde_json::Value;

use crate::entry::{Entry, Form};
use crate::sections::{File, Section};
use crate::{plan, trial};

/// Bytes of a bundle before the members that its hash is of.
const HEAD: usize = 1024;

/// An honest source that becomes a bundle, and changes of the file.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    source: String,
    /// The source whose artifact takes the place of the honest one.
    other: Option<String>,
    /// Member, place in its JSON and value.
    values: Vec<(String, String, Value)>,
    keeps_hash: bool,
    /// Bytes that are left.
    length: Option<usize>,
}

impl Change {
    /// The bundle of the file's first section, changed as a section says.
    pub(crate) fn form(task: &Task, file: &File, section: &Section) -> Form {
        let Some(honest) = file.sections.first().filter(|first| first.name == "compute") else {
            panic!("the first section of a file of bundles is `compute`");
        };
        let has_text = !section.text.trim().is_empty();
        let value = |set: &str| {
            let mut words = set.splitn(3, ' ').map(str::to_owned);
            let mut next = || words.next().unwrap();
            let (member, place) = (next(), next());
            (member, place, serde_json::from_str(&next()).unwrap())
        };
        Form::Bundle(Box::new(Self {
            source: plan::source(task, file, honest),
            other: has_text.then(|| plan::source(task, file, section)),
            values: section.options("set").map(value).collect(),
            keeps_hash: section.option("hash") == Some("kept"),
            length: section.option("length").map(|length| length.parse().unwrap()),
        }))
    }

    /// The file after the changes.
    fn made(&self, bundle: &[u8]) -> Vec<u8> {
        let (head, members) = bundle.split_at(HEAD);
        let mut changed = tar::Builder::new(Vec::new());
        for member in tar::Archive::new(members).entries().unwrap() {
            let mut member = member.unwrap();
            let name = member.path().unwrap().display().to_string();
            let mut content = Vec::new();
            member.read_to_end(&mut content).unwrap();
            for (_, place, value) in self.values.iter().filter(|(changed, ..)| *changed == name) {
                let mut json: Value = serde_json::from_slice(&content).unwrap();
                let found = json.pointer_mut(place);
                *found.unwrap_or_else(|| panic!("{name} has no {place}")) = value.clone();
                content = serde_json::to_vec(&json).unwrap();
            }
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            changed
                .append_data(&mut header, name, content.as_slice())
                .unwrap();
        }
        let changed = changed.into_inner().unwrap();
        let hash = |members: &[u8]| Digest::of(members).to_string();
        let mut head = String::from_utf8(head.to_vec()).unwrap();
        if !self.keeps_hash {
            head = head.replace(&hash(members), &hash(&changed));
        }
        let mut file = [head.as_bytes(), &changed].concat();
        file.truncate(self.length.unwrap_or(file.len()));
        file
    }
}

/// Judges a bundle as a user does who was given the file.
pub(crate) fn judge(entry: &Entry, change: &Change, judge: &Judge) -> Result<Verdict> {
    let registry = akg::registry();
    let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
    let target = trial::device(&*backend)?;
    let (source, mut artifact) = build(&*dsl, &change.source, &target)?;
    if let Some(other) = &change.other {
        artifact.bytes = build(&*dsl, other, &target)?.1.bytes;
    }
    let evidence = Evidence {
        verdict: Verdict::new(entry.task.contract.accuracy),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    };
    let bundle = Bundle::new(&entry.task, &target, Candidate { source, artifact }, "", evidence)?;
    let bundle = Bundle::from_bytes(&change.made(&bundle.to_bytes()?))?;
    let requires = &bundle.manifest().requires;
    requires.check(&target.backend, &target.arch, &target.features)?;
    block_on(judge.verify(&bundle.candidate(), &bundle.task(), &target, &*backend))
}

fn build(dsl: &dyn Dsl, text: &str, target: &Target) -> Result<(Source, Artifact)> {
    let source = dsl.parse(text)?;
    let artifact = dsl.build(&source, target)?;
    let artifact = artifact.map_err(|failure| Error::unexpected(failure.evidence))?;
    Ok((source, artifact))
}
