//! The machine: programs of scalar instructions over tensors of `f32`, one instruction a cycle.
//!
//! ```text
//! kernel NAME            begins a kernel
//! load R T I             R = tensor number T of the launch, element I
//! store T I R            the reverse
//! const R VALUE          R = VALUE
//! dim R D                R = dim number D of the plan
//! add|mul|max R A B      R = A + B, A * B, the larger of A and B
//! jump N                 goes on at the kernel's instruction N, counted from 0
//! ```
//!
//! R, A, B and I are registers, made by naming them; register `p` holds the program's number at first.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use akg::source::{Launch, LaunchPlan};
use akg::verdict::{Failure, FailureKind};

/// The kernels of an artifact.
#[derive(Debug, Default)]
pub(crate) struct Code(BTreeMap<String, Vec<Instruction>>);

/// A register.
type Register = usize;

/// The register that holds the program's number.
const PROGRAM: Register = 0;

#[derive(Debug, Clone, Copy)]
enum Instruction {
    Load(Register, usize, Register),
    Store(usize, Register, Register),
    Const(Register, f64),
    Dim(Register, usize),
    Compute(fn(f64, f64) -> f64, Register, Register, Register),
    Jump(usize),
}

impl Code {
    /// Reads the text of an artifact; an error says which line is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let mut code = Code::default();
        let mut kernel = None;
        let mut registers = Registers::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["kernel", name] = words.as_slice() {
                registers = Registers::new();
                kernel = Some((*name).to_owned());
                code.0.insert((*name).to_owned(), Vec::new());
                continue;
            }
            let body = kernel.as_ref().and_then(|name| code.0.get_mut(name));
            match body.zip(instruction(&words, &mut registers)) {
                Some((body, instruction)) => body.push(instruction),
                None => {
                    return Err(Failure::new(
                        FailureKind::LoadFailed,
                        format!("`{line}` is no instruction"),
                    ));
                }
            }
        }
        Ok(code)
    }

    /// Checks that every launch of a plan has its kernel.
    pub(crate) fn check(&self, plan: &LaunchPlan) -> Result<(), Failure> {
        match plan.launches.iter().find(|l| !self.0.contains_key(&l.kernel)) {
            Some(launch) => {
                let evidence = format!("the artifact has no kernel `{}`", launch.kernel);
                Err(Failure::new(FailureKind::LoadFailed, evidence))
            }
            None => Ok(()),
        }
    }

    /// Executes one program of a launch on the plan's tensors; gives the number of cycles.
    pub(crate) fn execute(
        &self,
        launch: &Launch,
        program: i64,
        memory: &mut [Vec<f32>],
        dims: &[i64],
        deadline: Instant,
    ) -> Result<u32, Failure> {
        let kernel = &launch.kernel;
        let body = self.0.get(kernel).map_or(&[][..], Vec::as_slice);
        let fault = |at: usize| {
            Failure::new(
                FailureKind::Crashed,
                format!("kernel `{kernel}`, instruction {at}: no such place"),
            )
        };
        let mut registers = vec![0.0; body.len() + 1];
        registers[PROGRAM] = program as f64;
        let (mut at, mut cycles) = (0, 0u32);
        while let Some(instruction) = body.get(at) {
            cycles = cycles.saturating_add(1);
            if cycles % 1024 == 0 && Instant::now() > deadline {
                return Err(Failure::new(
                    FailureKind::TimedOut,
                    format!("kernel `{kernel}` did not end in time"),
                ));
            }
            let next = at + 1;
            match *instruction {
                Instruction::Load(to, tensor, element) => {
                    let place = launch
                        .tensors
                        .get(tensor)
                        .and_then(|t| memory[*t].get(index(registers[element])?));
                    registers[to] = f64::from(*place.ok_or_else(|| fault(at))?);
                }
                Instruction::Store(tensor, element, from) => {
                    let place = launch
                        .tensors
                        .get(tensor)
                        .and_then(|t| memory[*t].get_mut(index(registers[element])?));
                    *place.ok_or_else(|| fault(at))? = registers[from] as f32;
                }
                Instruction::Const(to, value) => registers[to] = value,
                Instruction::Dim(to, dim) => registers[to] = *dims.get(dim).ok_or_else(|| fault(at))? as f64,
                Instruction::Compute(f, to, a, b) => registers[to] = f(registers[a], registers[b]),
                Instruction::Jump(to) => {
                    at = to;
                    continue;
                }
            }
            at = next;
        }
        Ok(cycles)
    }
}

/// A place in memory, unless the number is none.
fn index(value: f64) -> Option<usize> {
    (value >= 0.0).then_some(value as usize)
}

/// The registers of a kernel by name.
struct Registers<'a>(HashMap<&'a str, Register>);

impl<'a> Registers<'a> {
    fn new() -> Self {
        Self(HashMap::from([("p", PROGRAM)]))
    }

    fn read(&self, name: &str) -> Option<Register> {
        self.0.get(name).copied()
    }

    fn write(&mut self, name: &'a str) -> Register {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }
}

fn instruction<'a>(words: &[&'a str], registers: &mut Registers<'a>) -> Option<Instruction> {
    Some(match *words {
        ["load", to, tensor, element] => {
            let (tensor, element) = (tensor.parse().ok()?, registers.read(element)?);
            Instruction::Load(registers.write(to), tensor, element)
        }
        ["store", tensor, element, from] => Instruction::Store(
            tensor.parse().ok()?,
            registers.read(element)?,
            registers.read(from)?,
        ),
        ["const", to, value] => Instruction::Const(registers.write(to), value.parse().ok()?),
        ["dim", to, dim] => Instruction::Dim(registers.write(to), dim.parse().ok()?),
        ["jump", to] => Instruction::Jump(to.parse().ok()?),
        [name, to, a, b] => {
            let compute: fn(f64, f64) -> f64 = match name {
                "add" => |a, b| a + b,
                "mul" => |a, b| a * b,
                "max" => f64::max,
                _ => return None,
            };
            let (a, b) = (registers.read(a)?, registers.read(b)?);
            Instruction::Compute(compute, registers.write(to), a, b)
        }
        _ => return None,
    })
}
