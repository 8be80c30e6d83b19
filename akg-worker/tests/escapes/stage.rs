//! What an attempt attacks, and the traces that its success leaves.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use akg_worker::process::{Program, ResourceLimits};
use tempfile::TempDir;

/// Bytes that an attempt may keep in its scratch directory.
const QUOTA: u64 = 16 << 20;

/// Bytes of output that are kept.
const KEPT: usize = 1 << 16;

/// What an attempt says when it succeeds.
pub(crate) const SAID: &str = "ESCAPED";

/// What an attempt is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// A change in a directory that is not the program's.
    Files,
    /// A change of the program's own file.
    Program,
    /// A file in a directory that everybody writes to.
    NamedFile(&'static str),
    /// Knowledge of a secret.
    Secret,
    /// Something that the program notices itself.
    Said,
    /// The end or another state of another process.
    Victim,
    /// A process that lives on.
    Survivor,
    /// More output than is kept.
    Flood,
    /// A core dump.
    Core,
    /// A write to a descriptor that the caller forgot to close.
    Leak,
    /// A message to somebody outside.
    Heard,
}

/// What an attempt itself leads to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What it says.
    pub(crate) output: String,
    /// Whether it left its memory on the disk.
    pub(crate) core: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileState {
    path: PathBuf,
    mode: u32,
    /// In seconds: files that are made for an attempt are as old as it.
    modified: u64,
    content: Option<Vec<u8>>,
    attributes: usize,
}

/// One attempt's surroundings.
pub(crate) struct Stage {
    program: PathBuf,
    directory: TempDir,
    id: String,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    path: UnixListener,
    name: UnixListener,
    leak: File,
}

impl Stage {
    pub(crate) fn new(attempts: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("akg-escape-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("victim"), "unchanged").unwrap();
        fs::write(outside.join("key"), Self::secret(&id)).unwrap();
        fs::write(outside.join(Self::secret(&id)), "").unwrap();
        fs::set_permissions(outside.join("key"), Permissions::from_mode(0o600)).unwrap();
        let program = directory.path().join("attempts");
        fs::copy(attempts, &program).unwrap();
        // The name of a secret in its environment, and in its arguments.
        let victim = Command::new("/bin/sh")
            .args(["-c", "while :; do sleep 1; done", &id, &Self::secret(&id)])
            .env("SECRET", Self::secret(&id))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let (tcp, udp) = (
            TcpListener::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        let path = UnixListener::bind(outside.join("socket")).unwrap();
        let name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&id).unwrap()).unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        path.set_nonblocking(true).unwrap();
        name.set_nonblocking(true).unwrap();
        let leak = File::create(directory.path().join("leak")).unwrap();
        rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
        assert!(leak.as_raw_fd() > 2);
        Self {
            program,
            directory,
            id,
            victim,
            tcp,
            udp,
            path,
            name,
            leak,
        }
    }

    fn secret(id: &str) -> String {
        format!("secret-of-{id}")
    }

    fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// Seconds to sleep that identify a survivor.
    fn sleep(&self) -> String {
        let number = self.id.rsplit('-').next().unwrap_or_default();
        format!("1{:07}.{number}", std::process::id())
    }

    /// What an attempt is told about its target.
    pub(crate) fn environment(&self) -> [(&'static str, String); 7] {
        let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port().to_string();
        [
            ("SELF", self.program.display().to_string()),
            ("OUTSIDE", self.outside().display().to_string()),
            ("VICTIM", self.victim.id().to_string()),
            ("TCP", port(self.tcp.local_addr())),
            ("UDP", port(self.udp.local_addr())),
            ("ABSTRACT", self.id.clone()),
            ("SLEEP", self.sleep()),
        ]
    }

    /// Makes an attempt as a confined program.
    pub(crate) fn run(&self, name: &str, confine: &dyn Fn(Program) -> Program) -> Outcome {
        let limits = ResourceLimits {
            total: Some(256 << 20),
            processes: Some(400),
            file_size: Some(1 << 30),
            ..ResourceLimits::default()
        };
        let program = Program::new(&self.program).arg(name).limits(limits).quota(QUOTA);
        let environment = self.environment().into_iter();
        let program = environment.fold(program, |p, (name, value)| p.env(name, value));
        let time = Duration::from_secs(if name == "hang" { 1 } else { 60 });
        let program = confine(program);
        let mut finished = program.run(time, KEPT);
        // Another thread's child that is just starting may hold the copy of the program open for writing.
        while finished
            .as_ref()
            .is_err_and(|e| e.to_string().contains("Text file busy"))
        {
            std::thread::sleep(Duration::from_millis(10));
            finished = program.run(time, KEPT);
        }
        match finished {
            Ok(finished) => Outcome {
                output: finished.output(),
                core: finished.status().core_dumped() || finished.file("core", u64::MAX).is_ok(),
            },
            // One attempt hangs, and one may kill the supervisor before it reports.
            Err(error) => {
                assert!(["hang", "kill_supervisor"].contains(&name), "{name}: {error}");
                Outcome::default()
            }
        }
    }

    /// Lets `make` make an attempt; whether it did harm.
    pub(crate) fn attempt(mut self, name: &str, harm: Harm, make: &dyn Fn(&Self) -> Outcome) -> bool {
        let before = (
            self.files(),
            fs::read(&self.program).unwrap(),
            self.victim_state(),
        );
        let Outcome { output, core } = make(&self);
        match harm {
            Harm::Files => self.files() != before.0,
            Harm::Program => fs::read(&self.program).ok() != Some(before.1),
            Harm::NamedFile(directory) => fs::remove_file(Path::new(directory).join(&self.id)).is_ok(),
            // A kernel's words are lost, but not that it has some.
            Harm::Secret => output.contains(&Self::secret(&self.id)) || output == SAID,
            Harm::Said => {
                let said = output.contains(SAID);
                self.remove_system_memory(name, said);
                said
            }
            Harm::Victim => {
                // A signal takes a moment.
                std::thread::sleep(Duration::from_millis(100));
                self.victim_state() != before.2
            }
            Harm::Survivor => self.end_survivors(),
            Harm::Flood => output.len() > KEPT,
            Harm::Core => core,
            Harm::Leak => self.leak.metadata().unwrap().len() > 0,
            Harm::Heard => self.heard(),
        }
    }

    /// Everything about the directory that somebody may care for.
    fn files(&self) -> Vec<FileState> {
        let state = |entry: fs::DirEntry| {
            let metadata = entry.metadata().unwrap();
            let modified = metadata.modified().unwrap().duration_since(UNIX_EPOCH);
            FileState {
                path: entry.path(),
                mode: metadata.permissions().mode(),
                modified: modified.unwrap().as_secs(),
                content: metadata.is_file().then(|| fs::read(entry.path()).unwrap()),
                attributes: rustix::fs::listxattr(entry.path(), &mut [0u8; 256]).unwrap_or(0),
            }
        };
        let entries = fs::read_dir(self.outside()).unwrap().flatten();
        let mut files: Vec<_> = entries.map(state).collect();
        files.sort();
        files
    }

    /// What others may change about the victim; the command that it waits for at the moment is none of that.
    fn victim_state(&mut self) -> (bool, String, String, String) {
        let alive = self.victim.try_wait().unwrap().is_none();
        let read =
            |name| fs::read_to_string(format!("/proc/{}/{name}", self.victim.id())).unwrap_or_default();
        let stat = read("stat");
        let nice = stat
            .rsplit(')')
            .next()
            .and_then(|s| s.split_whitespace().nth(16))
            .unwrap_or("gone")
            .to_owned();
        (alive, read("limits"), read("oom_score_adj"), nice)
    }

    fn heard(&self) -> bool {
        std::thread::sleep(Duration::from_millis(50));
        let mut word = [0; 5];
        self.tcp.accept().is_ok()
            || self.udp.recv(&mut word).is_ok()
            || self.path.accept().is_ok()
            || self
                .name
                .accept()
                .is_ok_and(|(mut s, _)| s.read(&mut word).is_ok())
    }

    /// Ends what lives on; whether there was anything.
    fn end_survivors(&self) -> bool {
        let marker = self.sleep();
        let mut found = false;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if line.split(|b| *b == 0).any(|a| a == marker.as_bytes()) {
                found = true;
                let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
                let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
        found
    }

    /// Removes what the program left in the kernel.
    fn remove_system_memory(&self, name: &str, made: bool) {
        let option = match name {
            "system_memory" if made => "-M",
            "system_queue" if made => "-Q",
            _ => return,
        };
        let key = 0x5a_0000 + u32::from(self.tcp.local_addr().unwrap().port());
        let removed = Command::new("ipcrm")
            .args([option, &format!("{key:#x}")])
            .status();
        assert!(removed.is_ok_and(|s| s.success()));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.victim.kill().and_then(|()| self.victim.wait());
    }
}
