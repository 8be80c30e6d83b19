//! C++ sources with the launch plans that options state.

use akg::Task;
use akg::source::PlanTensor;
use serde_json::{Value, json};

use crate::assemble::INCLUDES;
use crate::sections::{File, Section};

/// A source of a launch plan, the head of the file and the section. A plan may be as wrong as JSON can say it.
pub(crate) fn source(task: &Task, file: &File, section: &Section) -> String {
    let header = match section.option("header") {
        Some(header) => header.to_owned(),
        None => format!("// akg-launch: {}", plan(task, file, section)),
    };
    let (head, text) = (&file.head.text, &section.text);
    format!("{header}\n{INCLUDES}{head}\n{text}")
}

/// The tensors of the task, those that the section declares in addition or in their place, and its launches.
fn plan(task: &Task, file: &File, section: &Section) -> Value {
    let own = PlanTensor::of(&task.graph);
    let mut tensors: Vec<Value> = own.iter().map(|t| serde_json::to_value(t).unwrap()).collect();
    for declared in section.options("tensor") {
        let declared = tensor(declared);
        match tensors.iter_mut().find(|own| own["name"] == declared["name"]) {
            Some(own) => *own = declared,
            None => tensors.push(declared),
        }
    }
    for name in section.options("without") {
        tensors.retain(|tensor| tensor["name"] != name);
    }
    let is_like_others = section.option("launch").is_none();
    let launches: Vec<Value> = if is_like_others { &file.head } else { section }
        .options("launch")
        .flat_map(|declared| launches(declared, &tensors))
        .collect();
    let dims: Vec<&str> = section.options("dim").collect();
    json!({"dims": dims, "tensors": tensors, "launches": launches})
}

/// A tensor such as `h f32 scratch 64 128 align 256 holds h`.
fn tensor(declared: &str) -> Value {
    let mut words = declared.split_whitespace();
    let mut next = || words.next().unwrap().to_owned();
    let (name, dtype, role) = (next(), next(), next());
    let mut tensor = json!({"name": name, "dtype": dtype, "role": role, "shape": [], "align": 64});
    while let Some(word) = words.next() {
        match word {
            "align" | "holds" => tensor[word] = number(words.next().unwrap()),
            extent => tensor["shape"].as_array_mut().unwrap().push(number(extent)),
        }
    }
    tensor
}

/// Launches such as `add h y over 4 16`: a kernel, its tensors by name or number and its grid. `times 3` repeats it, and `together`
/// lets all programs run at the same time.
fn launches(declared: &str, tensors: &[Value]) -> Vec<Value> {
    let mut words = declared.split_whitespace().peekable();
    let kernel = words.next().unwrap();
    let (mut taken, mut grid, mut times, mut together) = (Vec::new(), Vec::new(), 1, false);
    while let Some(word) = words.next() {
        match word {
            "over" => {
                while let Some(extent) = words.next_if(|word| !["times", "together"].contains(word)) {
                    grid.push(number(extent));
                }
            }
            "times" => times = words.next().unwrap().parse().unwrap(),
            "together" => together = true,
            name => {
                let index = tensors.iter().position(|tensor| tensor["name"] == name);
                taken.push(index.map_or_else(|| number(name), Value::from));
            }
        }
    }
    let launch = json!({"kernel": kernel, "tensors": taken, "grid": grid, "cooperative": together});
    vec![launch; times]
}

/// A number, or the text of an expression or name.
fn number(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}
