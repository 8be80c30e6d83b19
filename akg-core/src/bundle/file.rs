//! Bundles as bytes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Bundle, VERSION};
use crate::error::{Error, Result};
use crate::graph::Graph;

const HEADER: &str = "akg-bundle";
const MANIFEST: &str = "manifest.json";
const EVIDENCE: &str = "evidence.json";
const GRAPH: &str = "graph.json";
const SKETCH: &str = "sketch.txt";
const SOURCE: &str = "source.txt";
const MODULE: &str = "module.py";
const ARTIFACT: &str = "artifact.bin";

/// Bytes of one block of a tar archive.
const BLOCK: usize = 512;

/// The first member: a block that describes it, a block of content.
const HEAD: usize = 2 * BLOCK;

/// Permissions of the members when they are extracted.
const MODE: u32 = 0o644;

/// The content of the first member.
#[derive(Serialize, Deserialize)]
struct Header {
    akg_bundle: u32,
    #[serde(default)]
    blake3: String,
}

/// Whether bytes begin as those of a bundle do.
pub(super) fn is_bundle(bytes: &[u8]) -> bool {
    let name = bytes.strip_prefix(HEADER.as_bytes());
    name.is_some_and(|rest| rest.first() == Some(&0))
}

/// The whole file.
pub(super) fn encode(bundle: &Bundle) -> Result<Vec<u8>> {
    let members = members(bundle)?;
    let mut file = head(&hash(&members))?;
    file.extend(members);
    Ok(file)
}

/// The hash of everything after the first member.
pub(super) fn hash(members: &[u8]) -> String {
    blake3::hash(members).to_hex().to_string()
}

/// The first member.
fn head(hash: &str) -> Result<Vec<u8>> {
    let header = Header {
        akg_bundle: VERSION,
        blake3: hash.to_owned(),
    };
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, HEADER, format!("{}\n", json(&header)?).as_bytes())?;
    // Without the end of the archive, which comes after the other members.
    archive
        .get_ref()
        .get(..HEAD)
        .map(<[u8]>::to_vec)
        .ok_or_else(|| Error::unexpected("the first member of a bundle is too short"))
}

/// All members but the first, and the end of the archive.
pub(super) fn members(bundle: &Bundle) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, MANIFEST, pretty(&bundle.manifest)?.as_bytes())?;
    append(&mut archive, EVIDENCE, pretty(&bundle.evidence)?.as_bytes())?;
    append(&mut archive, GRAPH, bundle.graph.to_json()?.as_bytes())?;
    append(&mut archive, SKETCH, bundle.sketch.as_bytes())?;
    append(&mut archive, SOURCE, bundle.source.as_bytes())?;
    if let Some(module) = &bundle.module {
        append(&mut archive, MODULE, module.as_bytes())?;
    }
    append(&mut archive, ARTIFACT, &bundle.artifact)?;
    archive.into_inner().map_err(cannot_pack)
}

/// Adds a member that says nothing about who made it, and when.
fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_mode(MODE);
    header.set_size(content.len() as u64);
    archive
        .append_data(&mut header, name, content)
        .map_err(cannot_pack)
}

fn cannot_pack(error: std::io::Error) -> Error {
    Error::unexpected("cannot pack the bundle").caused_by(error)
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::unexpected("cannot write the bundle as JSON").caused_by(e))
}

/// JSON that can be read again: infinities and the like are not in it.
fn pretty<T: Serialize + DeserializeOwned>(value: &T) -> Result<String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::unexpected("cannot write the bundle as JSON").caused_by(e))?;
    serde_json::from_str::<T>(&text)
        .map_err(|e| Error::invalid("the bundle has a number that JSON cannot hold").caused_by(e))?;
    Ok(text)
}

/// The bundle of a file.
pub(super) fn decode(bytes: &[u8]) -> Result<Bundle> {
    if !is_bundle(bytes) {
        return Err(Error::invalid("this is no bundle of akg"));
    }
    let Some((first, members)) = bytes.split_at_checked(HEAD) else {
        return Err(Error::invalid("the bundle is cut off in its header"));
    };
    let header = read_header(first)?;
    let found = hash(members);
    if found != header.blake3 {
        return Err(Error::invalid(format!(
            "the bundle's content does not fit its hash: the file was cut off, damaged or changed (content {found}, header \
             {})",
            header.blake3
        )));
    }
    if head(&found)? != first {
        return Err(Error::invalid("the bundle's header is damaged"));
    }
    let members = Members::new(members)?;
    let bundle = Bundle {
        manifest: members.json(MANIFEST)?,
        evidence: members.json(EVIDENCE)?,
        graph: Graph::from_json(members.text(GRAPH)?).map_err(|e| e.with("member", GRAPH))?,
        sketch: members.text(SKETCH)?.to_owned(),
        source: members.text(SOURCE)?.to_owned(),
        module: members
            .find(MODULE)
            .map(|_| members.text(MODULE).map(str::to_owned))
            .transpose()?,
        artifact: members.bytes(ARTIFACT)?.to_vec(),
    };
    Ok(bundle)
}

/// The content of the first member, of this version.
fn read_header(first: &[u8]) -> Result<Header> {
    let content = first.get(BLOCK..).unwrap_or_default();
    let line = content.split(|b| *b == b'\n').next().unwrap_or_default();
    let header: Header = serde_json::from_slice(line)
        .map_err(|e| Error::invalid("the bundle's header is damaged").caused_by(e))?;
    if header.akg_bundle != VERSION {
        return Err(Error::unsupported(format!(
            "the bundle has version {} of the form, and this akg ({}) reads version {VERSION}: use the akg that made it, or \
             make it again",
            header.akg_bundle,
            env!("CARGO_PKG_VERSION")
        )));
    }
    Ok(header)
}

/// The members of an archive by name.
struct Members<'a>(Vec<(String, &'a [u8])>);

impl<'a> Members<'a> {
    fn new(archive: &'a [u8]) -> Result<Self> {
        let broken = |e: std::io::Error| Error::invalid("the bundle is no proper archive").caused_by(e);
        let mut members = Vec::new();
        let mut reader = tar::Archive::new(archive);
        for entry in reader.entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let name = entry.path().map_err(broken)?.display().to_string();
            // Sizes are claims: only what is there counts.
            let start = usize::try_from(entry.raw_file_position()).ok();
            let end = start.zip(usize::try_from(entry.size()).ok());
            let content = end
                .and_then(|(start, size)| archive.get(start..start.checked_add(size)?))
                .ok_or_else(|| Error::invalid(format!("the bundle's member `{name}` is cut off")))?;
            members.push((name, content));
        }
        Ok(Self(members))
    }

    fn find(&self, name: &str) -> Option<&'a [u8]> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, content)| *content)
    }

    fn bytes(&self, name: &str) -> Result<&'a [u8]> {
        self.find(name)
            .ok_or_else(|| Error::invalid(format!("the bundle has no member `{name}`")))
    }

    fn text(&self, name: &str) -> Result<&'a str> {
        std::str::from_utf8(self.bytes(name)?)
            .map_err(|e| Error::invalid(format!("the bundle's member `{name}` is no text")).caused_by(e))
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        serde_json::from_slice(self.bytes(name)?)
            .map_err(|e| Error::invalid(format!("the bundle's member `{name}` is wrong")).caused_by(e))
    }
}
