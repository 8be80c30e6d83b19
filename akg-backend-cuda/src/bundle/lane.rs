//! What calls on one stream have in common: scratch memory, and a frame for each set of dims.

use akg_core::bundle::module::DimSource;
use akg_core::error::{Error, ErrorKind, Result};

use super::code::Code;
use super::frame::{Frame, Need, SCRATCH_ALIGN};
use crate::driver::{Memory, Stream};

/// Frames that a lane keeps at most.
const MOST_FRAMES: usize = 64;

/// The calls on one stream.
#[derive(Debug)]
pub(super) struct Lane {
    stream: Stream,
    /// For the dims of calls so far.
    frames: Vec<Frame>,
    scratch: Scratch,
    /// Calls so far.
    calls: u64,
}

/// Memory of scratch tensors, which one call after the other uses.
#[derive(Debug)]
enum Scratch {
    None,
    Own(Memory),
    Lent { address: u64, bytes: u64 },
}

impl Scratch {
    /// The address and bytes.
    fn range(&self) -> (u64, u64) {
        match self {
            Scratch::None => (0, 0),
            Scratch::Own(memory) => (memory.address(), memory.bytes()),
            Scratch::Lent { address, bytes } => (*address, *bytes),
        }
    }
}

impl Lane {
    /// The lane of a stream among others.
    pub(super) fn of(lanes: &mut Vec<Lane>, stream: Stream) -> &mut Lane {
        let at = lanes
            .iter()
            .position(|lane| lane.is_of(stream))
            .unwrap_or(lanes.len());
        if at == lanes.len() {
            lanes.push(Lane {
                stream,
                frames: Vec::new(),
                scratch: Scratch::None,
                calls: 0,
            });
        }
        &mut lanes[at]
    }

    pub(super) fn is_of(&self, stream: Stream) -> bool {
        self.stream == stream
    }

    /// The frame for these values of the dims.
    pub(super) fn frame(
        &mut self,
        code: &Code,
        value: impl Fn(&DimSource) -> Option<i64>,
    ) -> Result<&mut Frame> {
        self.calls += 1;
        let fits = |frame: &Frame| code.signature().fits(frame.dims(), &value);
        let at = match self.frames.iter().position(fits) {
            Some(at) => at,
            None => self.add(code, code.signature().dim_values(&value)?)?,
        };
        let frame = &mut self.frames[at];
        frame.used = self.calls;
        Ok(frame)
    }

    /// Makes a frame for dims that have none; gives its position.
    fn add(&mut self, code: &Code, dims: Vec<i64>) -> Result<usize> {
        let need = Need::new(code, &dims)?;
        self.reserve(need.bytes)?;
        if self.frames.len() == MOST_FRAMES {
            let by_use = self.frames.iter().enumerate().min_by_key(|(_, frame)| frame.used);
            let oldest = by_use.map_or(0, |(at, _)| at);
            // Its graph may be at work.
            self.stream.wait()?;
            self.frames.swap_remove(oldest);
        }
        let (address, _) = self.scratch.range();
        self.frames
            .push(Frame::new(code, dims, need, address, self.stream)?);
        Ok(self.frames.len() - 1)
    }

    /// Sees to it that there are so many bytes of scratch.
    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let (_, have) = self.scratch.range();
        if bytes <= have {
            return Ok(());
        }
        if let Scratch::Lent { .. } = self.scratch {
            return Err(Error::new(
                ErrorKind::OutOfResources,
                format!("the call needs {bytes} bytes of scratch memory; lent were {have}"),
            ));
        }
        self.clear()?;
        self.scratch = Scratch::Own(Memory::new(bytes).map_err(|error| {
            let message = format!("there is no room for {bytes} bytes of scratch memory");
            Error::new(ErrorKind::OutOfResources, message).caused_by(error)
        })?);
        Ok(())
    }

    /// Takes memory of the caller for scratch.
    pub(super) fn lend(&mut self, address: u64, bytes: u64) -> Result<()> {
        if !address.is_multiple_of(SCRATCH_ALIGN) {
            return Err(Error::invalid(format!(
                "scratch memory must begin at a multiple of {SCRATCH_ALIGN} bytes, but begins at {address:#x}"
            )));
        }
        self.clear()?;
        self.scratch = Scratch::Lent { address, bytes };
        Ok(())
    }

    /// Forgets the scratch memory, and the frames, which know where it is.
    fn clear(&mut self) -> Result<()> {
        self.stream.wait()?;
        self.frames.clear();
        self.scratch = Scratch::None;
        Ok(())
    }
}
