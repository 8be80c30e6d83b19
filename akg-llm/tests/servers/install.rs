//! Servers that others wrote, installed under the target directory when they are needed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A server that ends with this value.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: String,
    /// Where the aimock is that answers in the end.
    aimock: String,
}

impl Server {
    /// How often aimock was asked something whose last message is `text`.
    pub(crate) fn asked(&self, text: &str) -> usize {
        let mut stream = TcpStream::connect(&self.aimock).unwrap();
        stream.write_all(b"GET /v1/_requests HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let journal: Vec<serde_json::Value> = serde_json::from_str(body).unwrap();
        let last = |entry: &&serde_json::Value| {
            let messages = entry["body"]["messages"].as_array();
            messages
                .and_then(|m| m.last())
                .is_some_and(|m| m["content"].to_string().contains(text))
        };
        journal.iter().filter(last).count()
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

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers")
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

/// Makes the folder `name` with `install`, unless that was done for the same files before.
fn install(
    name: &str,
    files: &[&str],
    install: impl FnOnce(&Path) -> Result<(), Absence>,
) -> Result<PathBuf, Absence> {
    let broken = |e: std::io::Error| Absence::Broken(e.to_string());
    let folder = there().join(name);
    let mut wanted = String::new();
    for file in files {
        wanted += &fs::read_to_string(here().join(file)).map_err(broken)?;
    }
    let done = folder.join("installed");
    if fs::read_to_string(&done).ok().as_ref() == Some(&wanted) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(broken)?;
    for file in files {
        fs::copy(here().join(file), folder.join(file)).map_err(broken)?;
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

/// Starts aimock with these fixtures.
pub(crate) fn aimock(fixtures: &serde_json::Value) -> Result<Server, Absence> {
    demand_node()?;
    let folder = install("aimock", &["package.json", "package-lock.json"], |folder| {
        run(Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(folder))
    })?;
    let broken = |e: std::io::Error| Absence::Broken(e.to_string());
    fs::write(folder.join("fixtures.json"), fixtures.to_string()).map_err(broken)?;
    let config = serde_json::json!({
        "llm": {"fixtures": "./fixtures.json", "logLevel": "silent"},
        "strict": true, "host": "127.0.0.1", "port": 0,
    });
    fs::write(folder.join("config.json"), config.to_string()).map_err(broken)?;
    let mut process = Command::new("node")
        .args([
            "node_modules/@copilotkit/aimock/dist/aimock-cli.js",
            "--config",
            "config.json",
        ])
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
    })
}

/// The key of the proxy.
pub(crate) const KEY: &str = "sk-4d1f0a7be9c24c6fb7c3e2a95d8f1b60";

/// Starts the proxy of litellm in front of aimock.
pub(crate) fn litellm(aimock: &Server) -> Result<Server, Absence> {
    demand("python3", "-cimport ensurepip, venv")?;
    let folder = install("litellm", &["requirements.txt"], |folder| {
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
    let log = folder.join("log");
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
        .arg(here().join("litellm.yaml"))
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
