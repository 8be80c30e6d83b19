//! Layers that mix tokens within windows, every other one within windows that are shifted.

use super::*;

/// Tokens of a square image of `side`, in windows of `window`.
struct Image {
    batch: i64,
    side: i64,
    window: i64,
    channels: i64,
}

impl Image {
    /// Mixes the tokens of each window, and what comes out of that with its own channels.
    fn block(&self, g: &mut Graph, x: ValueId, shift: i64, name: &str) -> Result<ValueId> {
        let Image {
            batch,
            side,
            window,
            channels,
        } = *self;
        let heads = 3;
        let mix = g.weight(
            &format!("mix_{name}"),
            F,
            [heads * window * window, window * window, 1],
        );
        let up = g.weight(&format!("up_{name}"), F, [2 * channels, channels]);
        let down = g.weight(&format!("down_{name}"), F, [channels, 2 * channels]);

        let n = g.layer_norm(x, [channels], None, None, 1e-5)?;
        let image = g.reshape(n, [batch, side, side, channels])?;
        let (before, after) = (window - shift, shift);
        let shifted = if shift > 0 {
            g.pad(image, &[0, 0, before, after, before, after], 0.0)?
        } else {
            image
        };
        let padded = if shift > 0 { side + window } else { side };
        let count = padded / window;
        let windows = g.reshape(shifted, [batch, count, window, count, window, channels])?;
        let windows = g.permute(windows, &[0, 1, 3, 2, 4, 5])?;
        let split = g.reshape(
            windows,
            [batch * count * count, window * window, heads, channels / heads],
        )?;
        let split = g.transpose(split, 1, 2)?;
        let split = g.reshape(
            split,
            [batch * count * count, heads * window * window, channels / heads],
        )?;
        let call = [
            ("input", split.into()),
            ("weight", mix.into()),
            ("groups", heads.into()),
        ];
        let mixed = g.call("conv1d.default", call)?[0];
        let mixed = g.reshape(
            mixed,
            [batch * count * count, heads, window * window, channels / heads],
        )?;
        let mixed = g.transpose(mixed, 1, 2)?;
        let mixed = g.reshape(mixed, [batch, count, count, window, window, channels])?;
        let mixed = g.permute(mixed, &[0, 1, 3, 2, 4, 5])?;
        let mut mixed = g.reshape(mixed, [batch, padded, padded, channels])?;
        if shift > 0 {
            for dim in [1, 2] {
                mixed = g.slice(mixed, dim, before, padded - after, 1)?;
            }
        }
        let mixed = g.reshape(mixed, [batch, side * side, channels])?;
        let x = g.add(x, mixed)?;
        let n = g.layer_norm(x, [channels], None, None, 1e-5)?;
        let hidden = g.linear(n, up, None)?;
        let hidden = g.gelu(hidden)?;
        let y = g.linear(hidden, down, None)?;
        g.add(x, y)
    }

    /// Lays the channels of four neighbours side by side.
    fn merge(&self, g: &mut Graph, x: ValueId) -> Result<ValueId> {
        let image = g.reshape(x, [self.batch, self.side, self.side, self.channels])?;
        let mut parts = Vec::new();
        for (row, column) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let rows = g.slice(image, 1, row, self.side, 2)?;
            parts.push(g.slice(rows, 2, column, self.side, 2)?);
        }
        g.cat(&parts, -1)
    }
}

#[test]
fn tokens_are_mixed_in_windows() {
    check("tokens_in_windows", |g| {
        let image = Image {
            batch: 2,
            side: 14,
            window: 7,
            channels: 12,
        };
        let x = g.input("x", F, [2, 196, 12]);
        let x = image.block(g, x, 0, "a")?;
        let x = image.block(g, x, 3, "b")?;
        image.merge(g, x)
    });
}
