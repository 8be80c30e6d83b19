//! Pictures of profiles hold what the numbers say: they are decoded and measured.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail the test")]

use akg::profile::{Bottleneck, Profile};
use akg::{Target, draw};
use serde_json::json;

const MEMORY: [u8; 3] = [0, 114, 178];
const TENSOR: [u8; 3] = [213, 94, 0];
const BLACK: [u8; 3] = [0, 0, 0];

/// A profile of launches, each with its seconds, bytes, operations and bottleneck, on a device of 1 TB/s and 100 Top/s.
fn profile(launches: &[(f64, f64, f64, Bottleneck)]) -> Profile {
    let mut target = Target::new("cuda", "sm_0");
    target.bandwidth = 1e12;
    target.peak.insert(akg::DType::F32, 1e14);
    let sum: f64 = launches.iter().map(|l| l.0).sum();
    let launches: Vec<_> = launches
        .iter()
        .enumerate()
        .map(|(number, (seconds, bytes, ops, bottleneck))| {
            json!({
                "kernel": format!("k{number}"), "seconds": seconds, "share": seconds / sum,
                "work": {"bytes": bytes, "tensor_flops": 0.0, "other_ops": ops, "memory_seconds": bytes / 1e12,
                         "tensor_seconds": 0.0, "issue_seconds": 0.0, "estimate_seconds": seconds},
                "resources": {"programs": 1}, "finding": {"bottleneck": bottleneck, "evidence": ""},
            })
        })
        .collect();
    serde_json::from_value(json!({
        "name": "test", "target": target, "measured": true, "seconds": sum, "launches": launches,
        "finding": {"bottleneck": "memory", "evidence": ""}, "notes": [],
    }))
    .unwrap()
}

struct Picture {
    width: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn decode(bytes: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.color_type, png::ColorType::Rgb);
        Self {
            width: info.width as usize,
            pixels,
        }
    }

    /// Where a color is.
    fn all(&self, color: [u8; 3]) -> Vec<(f64, f64)> {
        let pixels = self.pixels.chunks(3).enumerate();
        pixels
            .filter(|(_, pixel)| *pixel == color)
            .map(|(at, _)| ((at % self.width) as f64, (at / self.width) as f64))
            .collect()
    }

    /// The middle of all pixels of a color.
    fn middle(&self, color: [u8; 3]) -> (f64, f64) {
        let all = self.all(color);
        let mean = |part: fn(&(f64, f64)) -> f64| all.iter().map(part).sum::<f64>() / all.len() as f64;
        (mean(|p| p.0), mean(|p| p.1))
    }
}

#[test]
fn bars_are_as_long_as_their_launches() {
    let drawn = draw::timeline(&profile(&[
        (3e-3, 1e9, 1e9, Bottleneck::Memory),
        (1e-3, 1e9, 1e9, Bottleneck::Tensor),
    ]))
    .unwrap();
    let picture = Picture::decode(&drawn);
    let (first, second) = (picture.all(MEMORY), picture.all(TENSOR));
    let ratio = first.len() as f64 / second.len() as f64;
    assert!((ratio - 3.0).abs() < 0.02, "{ratio}");
    // The second begins where and when the first ends, in the row below.
    let end = first.iter().map(|p| p.0).fold(0.0, f64::max);
    let begin = second.iter().map(|p| p.0).fold(f64::MAX, f64::min);
    assert_eq!(begin, end + 1.0);
    assert!(picture.middle(TENSOR).1 > picture.middle(MEMORY).1);
}

#[test]
fn many_launches_fit_one_picture() {
    let launches: Vec<_> = (0..500)
        .map(|n| (1e-6 + f64::from(n) * 1e-9, 1e6, 0.0, Bottleneck::Memory))
        .collect();
    for drawn in [
        draw::timeline(&profile(&launches)),
        draw::roofline(&profile(&launches)),
    ] {
        let picture = Picture::decode(&drawn.unwrap());
        assert!(picture.pixels.len() / picture.width / 3 < 1500);
    }
    assert!(draw::timeline(&profile(&[])).is_ok());
    assert!(draw::roofline(&profile(&[])).is_ok());
}

#[test]
fn a_launch_at_full_bandwidth_lies_on_the_roof() {
    // 1 GB in a millisecond, ten operations for each byte.
    let full = Picture::decode(&draw::roofline(&profile(&[(1e-3, 1e9, 1e10, Bottleneck::Memory)])).unwrap());
    let (x, y) = full.middle(MEMORY);
    let is_near = |p: &(f64, f64), x: f64, y: f64| (p.0 - x).abs() < 9.0 && (p.1 - y).abs() < 9.0;
    // The slope enters and leaves the point's surroundings.
    let black = full.all(BLACK);
    assert!(black.iter().any(|p| is_near(p, x - 12.0, y + 10.0)));
    assert!(black.iter().any(|p| is_near(p, x + 12.0, y - 10.0)));

    // A tenth of the rate lies one decade below: as far as ten times the operations in the same time lie above.
    let at = |seconds, ops| {
        let launches = [(seconds, 1e9, ops, Bottleneck::Memory)];
        Picture::decode(&draw::roofline(&profile(&launches)).unwrap()).middle(MEMORY)
    };
    let slower = at(1e-2, 1e10);
    assert!((slower.0 - x).abs() < 1.0);
    let decade = slower.1 - y;
    assert!(decade > 50.0);
    let denser = at(1e-3, 1e11);
    assert!((y - denser.1 - decade).abs() < 1.5 && denser.0 - x > 50.0);
}

#[test]
fn pictures_are_the_same_every_time() {
    let profile = profile(&[(1e-3, 1e9, 1e10, Bottleneck::Issue)]);
    assert_eq!(
        draw::roofline(&profile).unwrap(),
        draw::roofline(&profile).unwrap()
    );
    assert_eq!(
        draw::timeline(&profile).unwrap(),
        draw::timeline(&profile).unwrap()
    );
}
