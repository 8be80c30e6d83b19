//! Profiles as pictures, for people and for models that read them: PNG files drawn from the numbers alone.
//!
//! The same profile gives the same bytes everywhere: lines and letters come from bitmaps, not from the system's fonts.

mod canvas;
mod roofline;
mod timeline;

use akg_core::profile::Bottleneck;
use canvas::Color;

pub use roofline::roofline;
pub use timeline::timeline;

/// The color of what is held back by something; told apart by everybody (Okabe and Ito's palette).
fn color(bottleneck: Bottleneck) -> Color {
    match bottleneck {
        Bottleneck::Memory => Color::new(0, 114, 178),
        Bottleneck::Tensor => Color::new(213, 94, 0),
        Bottleneck::Issue => Color::new(0, 158, 115),
        Bottleneck::Latency => Color::new(204, 121, 167),
        _ => Color::new(150, 150, 150),
    }
}

/// At most so many letters of a text.
fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(2)).collect();
    format!("{kept}..")
}
