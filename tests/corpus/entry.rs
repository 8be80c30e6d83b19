//! The candidates of the corpus.

use std::fs;
use std::path::{Path, PathBuf};

use akg::source::{Artifact, Source};
use akg::{Graph, Task};

use crate::bundle::Change;
use crate::reply::Conversation;
use crate::sections::{File, Section};
use crate::{assemble, plan};

/// What a candidate is written in.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// C++ with its launch plan.
    Source(Box<Source>),
    /// C++ with a launch plan at its head.
    Plan(String),
    /// A bundle of a C++ source that was changed.
    Bundle(Box<Change>),
    /// Replies of a language model, in C++, a sketch or a Python module.
    Replies(Box<Conversation>),
    /// A Python module with a class `ModelNew`.
    Module(String),
    /// Triton with a launch header.
    Triton(String),
    /// CUDA C++ as an artifact that the backend compiles.
    Cuda(Box<Artifact>),
    /// A sketch, which the C++ DSL lowers.
    Sketch(String),
}

/// A candidate and its right verdict.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The file, the section and, if there are several, the task.
    pub(crate) name: String,
    pub(crate) task: Task,
    pub(crate) form: Form,
    /// The names of the failures for which it may be rejected, or of the errors with which it may be refused before it is
    /// judged; none for an honest one.
    pub(crate) reasons: Vec<String>,
    /// Texts of which each must be in the evidence or remarks of the verdict, and of which none may be.
    pub(crate) says: Vec<String>,
    pub(crate) is_silent_on: Vec<String>,
    /// The time limit of a call in seconds; that of the judge unless stated.
    pub(crate) seconds: Option<u64>,
    /// Whether it is judged by a benchmark, too.
    pub(crate) timed: bool,
    pub(crate) device: Device,
}

/// Where a candidate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Cpu,
    Cuda,
}

impl Entry {
    /// Whether Python has a part in it.
    pub(crate) fn needs_python(&self) -> bool {
        match &self.form {
            Form::Module(_) | Form::Triton(_) => true,
            Form::Replies(conversation) => conversation.is_python,
            _ => false,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        if self.reasons.is_empty() {
            "honest"
        } else {
            "hostile"
        }
    }

    fn new(name: String, task: &Task, form: Form, section: &Section) -> Self {
        Self {
            name,
            task: task.clone(),
            form,
            reasons: section.reasons.clone(),
            says: section.options("says").map(str::to_owned).collect(),
            is_silent_on: section.options("is-silent-on").map(str::to_owned).collect(),
            seconds: section.option("seconds").map(|seconds| seconds.parse().unwrap()),
            timed: section.timed,
            device: Device::Cpu,
        }
    }
}

/// A task of the corpus and its sections: `compute` first, then candidates of its own.
struct Subject {
    name: String,
    task: Task,
    file: File,
}

impl Subject {
    fn read(path: &Path) -> Self {
        let file = File::open(path, "//");
        let name = stem(path);
        let task = task(&name, &file.head);
        Self { name, task, file }
    }

    /// The honest computation that wrappers call.
    fn compute(&self) -> &Section {
        let compute = self.file.sections.first().filter(|s| s.name == "compute");
        compute.unwrap_or_else(|| panic!("tasks/{}.cpp has no section `compute`", self.name))
    }

    /// Whether a wrapper with these options takes the task.
    fn suits(&self, tasks: &str) -> bool {
        let labels = self.file.head.option("labels").unwrap_or_default();
        let has = |word: &str| word == self.name || labels.split(", ").any(|label| label == word);
        tasks == "all" || tasks.split(", ").any(has)
    }
}

/// Reads every entry.
pub(crate) fn all() -> Vec<Entry> {
    let subjects: Vec<Subject> = files("tasks", "cpp")
        .iter()
        .map(|path| Subject::read(path))
        .collect();
    let mut entries = Vec::new();
    for subject in &subjects {
        for section in &subject.file.sections {
            let name = format!("tasks/{}/{}", subject.name, section.name);
            let source = assemble::kernel(&subject.task, &subject.file.head, &section.text, section, None);
            entries.push(Entry::new(name, &subject.task, source, section));
        }
    }
    for path in files("wrappers", "cpp") {
        let file = File::open(&path, "//");
        for section in &file.sections {
            let tasks = section
                .option("tasks")
                .or(file.head.option("tasks"))
                .unwrap_or("all");
            let suited: Vec<&Subject> = subjects.iter().filter(|s| s.suits(tasks)).collect();
            assert!(
                !suited.is_empty(),
                "{}: no task is called `{tasks}`",
                path.display()
            );
            for subject in suited {
                let name = format!("wrappers/{}/{}/{}", stem(&path), section.name, subject.name);
                let wrapper = format!("{}\n{}", file.head.text, section.text);
                let compute = &subject.compute().text;
                let source = assemble::kernel(
                    &subject.task,
                    &subject.file.head,
                    compute,
                    section,
                    Some(&wrapper),
                );
                entries.push(Entry::new(name, &subject.task, source, section));
            }
        }
    }
    type Make = fn(&Task, &File, &Section) -> Form;
    let others: [(&str, &str, &str, Make); 7] = [
        ("plans", "cpp", "//", |task, file, section| {
            Form::Plan(plan::source(task, file, section))
        }),
        ("bundles", "cpp", "//", Change::form),
        ("replies", "md", "#", |_, file, section| {
            Form::Replies(Box::new(Conversation::new(file, section)))
        }),
        ("sketches", "sketch", "#", |_, file, section| {
            Form::Sketch(assemble::text(file, section))
        }),
        ("modules", "py", "#", |_, file, section| {
            Form::Module(assemble::text(file, section))
        }),
        ("triton", "py", "#", |_, file, section| {
            Form::Triton(assemble::text(file, section))
        }),
        ("cuda", "cu", "//", assemble::cuda),
    ];
    for (folder, extension, comment, make) in others {
        for path in files(folder, extension) {
            let file = File::open(&path, comment);
            let task = match file.head.option("task") {
                Some(name) => {
                    let subject = subjects.iter().find(|subject| subject.name == name);
                    subject
                        .unwrap_or_else(|| panic!("no task is called `{name}`"))
                        .task
                        .clone()
                }
                None => task(&stem(&path), &file.head),
            };
            for section in &file.sections {
                let name = format!("{folder}/{}/{}", stem(&path), section.name);
                let mut task = task.clone();
                if let Some(accuracy) = section.option("accuracy") {
                    task.contract.accuracy = accuracy.parse().unwrap();
                }
                let form = make(&task, &file, section);
                for device in devices(&form, section) {
                    let name = match device {
                        Device::Cpu => name.clone(),
                        Device::Cuda => format!("{name}/cuda"),
                    };
                    let entry = Entry::new(name, &task, form.clone(), section);
                    entries.push(Entry {
                        device: *device,
                        ..entry
                    });
                }
            }
        }
    }
    entries
}

/// The devices that a candidate is for.
fn devices(form: &Form, section: &Section) -> &'static [Device] {
    match form {
        Form::Source(_) | Form::Plan(_) | Form::Bundle(_) | Form::Replies(_) | Form::Sketch(_) => {
            &[Device::Cpu]
        }
        Form::Triton(_) | Form::Cuda(_) => &[Device::Cuda],
        Form::Module(_) => match section.option("device") {
            Some("cpu") => &[Device::Cpu],
            Some("cuda") => &[Device::Cuda],
            _ => &[Device::Cpu, Device::Cuda],
        },
    }
}

/// The task of a file or section with the option `graph` and others of a contract.
fn task(name: &str, section: &Section) -> Task {
    let graph = section.option("graph");
    let graph = graph.unwrap_or_else(|| panic!("`{name}` has no option `graph`"));
    let graph = Graph::from_json(graph).unwrap_or_else(|e| panic!("the graph of `{name}`: {e}"));
    let mut task = Task::new(name, graph);
    if let Some(contract) = section.option("contract") {
        task.contract =
            serde_json::from_str(contract).unwrap_or_else(|e| panic!("the contract of `{name}`: {e}"));
    }
    task
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The files of a folder with this extension, in order.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let Ok(entries) = fs::read_dir(&folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}
