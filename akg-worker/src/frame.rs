//! How messages travel over a pipe: a little-endian `u32` length, then that many bytes of JSON.

use std::io::{self, Read, Write};

use akg_core::error::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest body of a frame in bytes. Tensors never travel in frames.
pub const MAX_BODY: usize = 64 << 20;

const HEADER: usize = 4;

/// The frame of one message.
///
/// # Errors
/// A message that is not JSON or is longer than [`MAX_BODY`] is a [`ErrorKind::Protocol`] error.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message)
        .map_err(|e| broken("a message cannot be written").caused_by(e))?;
    let body = frame.len() - HEADER;
    let length = body_length(body)?.to_le_bytes();
    if let Some(header) = frame.first_chunk_mut() {
        *header = length;
    }
    Ok(frame)
}

/// Writes one message and flushes.
pub fn write(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let frame = encode(message)?;
    to.write_all(&frame)
        .and_then(|()| to.flush())
        .map_err(|e| Error::io("cannot send a message to the other process", e))
}

/// Reads one message; `None` if the other side closed the pipe between messages.
///
/// # Errors
/// [`ErrorKind::Protocol`] if the frame is cut off, too long or not the JSON of a `T`.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>> {
    let mut decoder = Decoder::default();
    let mut chunk = [0; 8 << 10];
    loop {
        if let Some(message) = decoder.next()? {
            return Ok(Some(message));
        }
        // Never more than the frame still needs, so that the next message stays in the pipe.
        let want = decoder.missing().min(chunk.len());
        match from.read(chunk.get_mut(..want).unwrap_or_default()) {
            Ok(0) if decoder.is_empty() => return Ok(None),
            Ok(0) => {
                return Err(broken(
                    "the other process closed the pipe in the middle of a message",
                ));
            }
            Ok(n) => decoder.push(chunk.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("cannot read a message from the other process", e)),
        }
    }
}

/// Cuts a stream of bytes into messages, for readers that must not block.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Adds bytes as they arrive.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Whether no byte of an unfinished message is pending.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The next message if it has arrived completely.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if the announced length is out of range or the body is not the JSON of a `T`. The
    /// stream cannot be used after that.
    #[allow(clippy::should_implement_trait)]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(end) = self.frame_end()? else {
            return Ok(None);
        };
        let Some(body) = self.pending.get(HEADER..end) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body)
            .map_err(|e| broken("the other process sent a message that was not expected").caused_by(e))?;
        self.pending.drain(..end);
        Ok(Some(message))
    }

    /// Bytes that the header or, once that is known, the message still lacks.
    fn missing(&self) -> usize {
        let end = self.frame_end().ok().flatten().unwrap_or(HEADER);
        end.saturating_sub(self.pending.len())
    }

    fn frame_end(&self) -> Result<Option<usize>> {
        let Some(header) = self.pending.first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*header) as usize;
        body_length(length)?;
        Ok(Some(HEADER + length))
    }
}

fn body_length(length: usize) -> Result<u32> {
    u32::try_from(length)
        .ok()
        .filter(|_| (1..=MAX_BODY).contains(&length))
        .ok_or_else(|| {
            broken(&format!(
                "a message of {length} bytes is outside the protocol's range of 1 to {MAX_BODY}"
            ))
        })
}

fn broken(message: &str) -> Error {
    Error::new(ErrorKind::Protocol, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    proptest! {
        #[test]
        fn messages_survive_any_chunking(
            texts in prop::collection::vec(".{0,40}", 0..6),
            chunk in 1usize..50,
        ) {
            let stream: Vec<u8> = texts.iter().flat_map(|t| encode(t).unwrap()).collect();
            let mut decoder = Decoder::default();
            let mut decoded = Vec::new();
            for bytes in stream.chunks(chunk) {
                decoder.push(bytes);
                while let Some(text) = decoder.next::<String>().unwrap() {
                    decoded.push(text);
                }
            }
            prop_assert!(decoder.is_empty());
            prop_assert_eq!(&decoded, &texts);

            let mut pipe = stream.as_slice();
            let read: Vec<String> = std::iter::from_fn(|| read(&mut pipe).unwrap()).collect();
            prop_assert_eq!(&read, &texts);
        }

        #[test]
        fn garbage_is_an_error_or_incomplete(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            let decoded = decoder.next::<Value>();
            let announced = bytes.first_chunk().map(|h| u32::from_le_bytes(*h) as usize);
            match announced {
                None => prop_assert!(decoded.unwrap().is_none()),
                Some(n) if n == 0 || n > MAX_BODY => {
                    prop_assert_eq!(decoded.unwrap_err().kind(), ErrorKind::Protocol);
                }
                Some(n) if n > bytes.len() - HEADER => prop_assert!(decoded.unwrap().is_none()),
                Some(n) => {
                    let body = serde_json::from_slice::<Value>(&bytes[HEADER..HEADER + n]).ok();
                    prop_assert_eq!(decoded.ok().flatten(), body);
                }
            }
        }

        #[test]
        fn cut_off_messages_are_protocol_errors(text in ".{0,40}", keep in 0.0..1.0f64) {
            let frame = encode(&text).unwrap();
            let kept = (frame.len() as f64 * keep) as usize;
            let outcome = read::<String>(&mut &frame[..kept]);
            if kept == 0 {
                prop_assert!(outcome.unwrap().is_none());
            } else {
                prop_assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Protocol);
            }
        }
    }

    #[test]
    fn long_messages_are_refused_on_both_sides() {
        let text = "x".repeat(MAX_BODY);
        assert_eq!(encode(&text).unwrap_err().kind(), ErrorKind::Protocol);
        let header = u32::MAX.to_le_bytes();
        assert_eq!(
            read::<String>(&mut header.as_slice()).unwrap_err().kind(),
            ErrorKind::Protocol
        );
    }
}
