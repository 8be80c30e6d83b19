//! Servers that others wrote, installed under the target directory when they are needed; also for the tests of whole runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use tempfile::TempDir;

/// A server that ends with this value.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: String,
    /// Where the aimock is that answers in the end.
    aimock: String,
    /// Its own files.
    _place: TempDir,
}

impl Server {
    /// The requests to aimock so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let mut stream = TcpStream::connect(&self.aimock).unwrap();
        stream.write_all(b"GET /v1/_requests HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let journal: Vec<Value> = serde_json::from_str(body).unwrap();
        journal.iter().map(|entry| entry["body"].clone()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Why a server is not there: what it needs is missing, or it does not work.
pub(crate) enum Absence {
    Missing(String),
    Broken(String),
}

fn there() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers")
}

fn demand(program: &str, argument: &str) -> Result<(), Absence> {
    let run = Command::new(program).arg(argument).output();
    match run {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Absence::Missing(format!("`{program} {argument}` does not work"))),
    }
}

fn run(command: &mut Command) -> Result<(), Absence> {
    let output = command
        .output()
        .map_err(|e| Absence::Broken(format!("{command:?}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Absence::Broken(format!("{command:?} failed:\n{said}")))
}

/// Makes the folder `name` of these files with `install`, unless that was done for the same files before.
fn install(
    name: &str,
    files: &[(&str, &str)],
    install: impl FnOnce(&Path) -> Result<(), Absence>,
) -> Result<PathBuf, Absence> {
    let broken = |e: std::io::Error| Absence::Broken(e.to_string());
    let folder = there().join(name);
    let wanted: String = files.iter().map(|(_, text)| *text).collect();
    let done = folder.join("installed");
    if fs::read_to_string(&done).ok().as_ref() == Some(&wanted) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(broken)?;
    for (file, text) in files {
        fs::write(folder.join(file), text).map_err(broken)?;
    }
    install(&folder)?;
    fs::write(done, wanted).map_err(broken)?;
    Ok(folder)
}

/// Checks that Node is there, and new enough for aimock.
fn demand_node() -> Result<(), Absence> {
    demand("npm", "--version")?;
    let newer = "process.exit(process.versions.node.split('.')[0] >= 20 ? 0 : 1)";
    let run = Command::new("node").args(["-e", newer]).status();
    match run {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Absence::Missing(
            "there is no Node of version 20 or newer".to_owned(),
        )),
    }
}

/// Aimock with these fixtures, and litellm in front of it; says which of them are missing. If tests are `only_listed`, none starts.
pub(crate) fn both(fixtures: &Value, only_listed: bool) -> [Result<Server, Absence>; 2] {
    let aimock = if only_listed {
        Err(Absence::Missing("only listed".to_owned()))
    } else {
        aimock(fixtures)
    };
    let litellm = match &aimock {
        Ok(aimock) => litellm(aimock),
        Err(_) => Err(Absence::Missing("there is no aimock behind it".to_owned())),
    };
    for (name, server) in [("aimock", &aimock), ("litellm", &litellm)] {
        if let Err(Absence::Missing(why)) = server {
            eprintln!("SKIPPED: all tests with {name}: {why}");
        }
    }
    [aimock, litellm]
}

/// Starts aimock with these fixtures.
fn aimock(fixtures: &Value) -> Result<Server, Absence> {
    demand_node()?;
    let files = [
        ("package.json", include_str!("package.json")),
        ("package-lock.json", include_str!("package-lock.json")),
    ];
    let folder = install("aimock", &files, |folder| {
        run(Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(folder))
    })?;
    let broken = |e: std::io::Error| Absence::Broken(e.to_string());
    let place = tempfile::tempdir().map_err(broken)?;
    let config_file = place.path().join("config.json");
    let fixtures_file = place.path().join("fixtures.json");
    fs::write(&fixtures_file, fixtures.to_string()).map_err(broken)?;
    let config = serde_json::json!({
        "llm": {"fixtures": fixtures_file, "logLevel": "silent"},
        "strict": true, "host": "127.0.0.1", "port": 0,
    });
    fs::write(&config_file, config.to_string()).map_err(broken)?;
    let mut process = Command::new("node")
        .arg("node_modules/@copilotkit/aimock/dist/aimock-cli.js")
        .arg("--config")
        .arg(&config_file)
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(broken)?;
    let said = process.stdout.take().map(BufReader::new);
    let mut lines = said
        .into_iter()
        .flat_map(|said| said.lines().map_while(Result::ok));
    let address = lines.find_map(|line| Some(line.split_once("http://")?.1.trim().to_owned()));
    let address =
        address.ok_or_else(|| Absence::Broken("aimock does not say where it listens".to_owned()))?;
    Ok(Server {
        process,
        aimock: address.clone(),
        address,
        _place: place,
    })
}

/// The key of the proxy.
pub(crate) const KEY: &str = "sk-4d1f0a7be9c24c6fb7c3e2a95d8f1b60";

/// Starts the proxy of litellm in front of aimock.
fn litellm(aimock: &Server) -> Result<Server, Absence> {
    demand("python3", "-cimport ensurepip, venv")?;
    let files = [("requirements.txt", include_str!("requirements.txt"))];
    let folder = install("litellm", &files, |folder| {
        run(Command::new("python3")
            .args(["-m", "venv", "venv"])
            .current_dir(folder))?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--requirement",
            "requirements.txt",
        ];
        run(Command::new(folder.join("venv/bin/python"))
            .args(pip)
            .current_dir(folder))
    })?;
    let broken = |e: std::io::Error| Absence::Broken(e.to_string());
    let free = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .map_err(broken)?;
    let place = tempfile::tempdir().map_err(broken)?;
    let (config, log) = (place.path().join("litellm.yaml"), place.path().join("log"));
    fs::write(&config, include_str!("litellm.yaml")).map_err(broken)?;
    let process = Command::new(folder.join("venv/bin/litellm"))
        .args([
            "--host",
            "127.0.0.1",
            "--num_workers",
            "1",
            "--port",
            &free.port().to_string(),
            "--config",
        ])
        .arg(&config)
        .env("AIMOCK_BASE_URL", format!("http://{}/v1", aimock.address))
        .env("LITELLM_MASTER_KEY", KEY)
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .stdout(fs::File::create(&log).map_err(broken)?)
        .stderr(fs::File::options().append(true).open(&log).map_err(broken)?)
        .spawn()
        .map_err(broken)?;
    let mut server = Server {
        process,
        address: free.to_string(),
        aimock: aimock.address.clone(),
        _place: place,
    };
    let begun = Instant::now();
    while TcpStream::connect(free).is_err() {
        let ended = server.process.try_wait().map_err(broken)?;
        if ended.is_some() || begun.elapsed() > Duration::from_secs(180) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(Absence::Broken(format!("litellm does not listen:\n{said}")));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(server)
}
