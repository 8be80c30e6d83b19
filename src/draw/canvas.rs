//! Pixels, and what is drawn on them.

use std::convert::Infallible;

use akg_core::{Error, Result};
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::FONT_8X13;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};

pub(super) use embedded_graphics::pixelcolor::Rgb888 as Color;

/// Width of a letter.
pub(super) const LETTER: i32 = 8;
/// Height of a line of text with the space below it.
pub(super) const LINE: i32 = 17;

pub(super) const BLACK: Color = Color::new(0, 0, 0);
pub(super) const GREY: Color = Color::new(90, 90, 90);
pub(super) const PALE: Color = Color::new(225, 225, 225);

/// A white picture.
pub(super) struct Canvas {
    size: Size,
    /// Red, green and blue of each pixel, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32) -> Self {
        Self {
            size: Size::new(width, height),
            pixels: vec![255; 3 * width as usize * height as usize],
        }
    }

    pub(super) fn line(&mut self, (from, to): ((i32, i32), (i32, i32)), color: Color, width: u32) {
        let line = Line::new(from.into(), to.into()).into_styled(PrimitiveStyle::with_stroke(color, width));
        let Ok(()) = line.draw(self);
    }

    pub(super) fn bar(&mut self, (x, y): (i32, i32), (width, height): (u32, u32), color: Color) {
        let bar = Rectangle::new(Point::new(x, y), Size::new(width, height));
        let Ok(()) = bar.into_styled(PrimitiveStyle::with_fill(color)).draw(self);
    }

    pub(super) fn dot(&mut self, (x, y): (i32, i32), diameter: u32, color: Color) {
        let dot = Circle::with_center(Point::new(x, y), diameter);
        let Ok(()) = dot.into_styled(PrimitiveStyle::with_fill(color)).draw(self);
    }

    /// Text whose top is at `y` and whose beginning, middle or end is at `x`.
    pub(super) fn text(&mut self, text: &str, (x, y): (i32, i32), alignment: Alignment, color: Color) {
        let style = TextStyleBuilder::new()
            .alignment(alignment)
            .baseline(Baseline::Top)
            .build();
        let letters = MonoTextStyle::new(&FONT_8X13, color);
        let text = Text::with_text_style(text, Point::new(x, y), letters, style);
        // Gives where the text ends.
        let Ok(_) = text.draw(self);
    }

    pub(super) fn into_png(self) -> Result<Vec<u8>> {
        let trouble = |e: png::EncodingError| Error::unexpected("a picture cannot be written").caused_by(e);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(trouble)?;
        writer.write_image_data(&self.pixels).map_err(trouble)?;
        writer.finish().map_err(trouble)?;
        Ok(bytes)
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas {
    type Color = Color;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Color>>,
    {
        for Pixel(Point { x, y }, color) in pixels {
            let inside =
                (0..self.size.width as i32).contains(&x) && (0..self.size.height as i32).contains(&y);
            let at = 3 * (y as usize * self.size.width as usize + x as usize);
            if inside && let Some(pixel) = self.pixels.get_mut(at..at + 3) {
                pixel.copy_from_slice(&[color.r(), color.g(), color.b()]);
            }
        }
        Ok(())
    }
}
