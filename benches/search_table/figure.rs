//! Draws curves as SVG.

use std::fmt::Write as _;

/// Width and height of the picture, and of what lies around the curves: left, top, right, below.
const SIZE: [f64; 2] = [640.0, 400.0];
const MARGIN: [f64; 4] = [56.0, 20.0, 100.0, 44.0];
/// Colours that the colour-blind tell apart (Okabe & Ito, 2008).
const COLOURS: [&str; 6] = ["#999999", "#56b4e9", "#009e73", "#d55e00", "#0072b2", "#cc79a7"];

/// Curves of speeds over numbers of evaluations, these as powers of two.
pub(super) fn draw(marks: &[usize], curves: &[(&str, Vec<f64>)]) -> String {
    let [left, top, right, below] = MARGIN;
    let [width, height] = SIZE;
    let (first, last) = (
        marks.first().copied().unwrap_or(1),
        marks.last().copied().unwrap_or(2),
    );
    let across = |mark: usize| {
        let part = (mark as f64 / first as f64).log2() / (last as f64 / first as f64).log2();
        left + part * (width - left - right)
    };
    let least = curves
        .iter()
        .flat_map(|(_, speeds)| speeds)
        .copied()
        .fold(1.0, f64::min);
    let least = (least * 10.0).floor() / 10.0;
    let down = |speed: f64| top + (1.0 - speed) / (1.0 - least) * (height - top - below);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, colour: &str, words: &str| {
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
        );
    };
    for mark in marks.iter().filter(|mark| mark.is_power_of_two()) {
        text(
            across(*mark),
            height - below + 18.0,
            "middle",
            "black",
            &mark.to_string(),
        );
    }
    text(
        (left + width - right) / 2.0,
        height - 8.0,
        "middle",
        "black",
        "evaluations",
    );
    text(
        left,
        14.0,
        "start",
        "black",
        "speed of what is found, of the best candidate's",
    );
    let mut lines = String::new();
    let steps = ((1.0 - least) * 10.0).round() as usize;
    for step in 0..=steps {
        let speed = 1.0 - step as f64 / 10.0;
        text(
            left - 8.0,
            down(speed) + 4.0,
            "end",
            "black",
            &format!("{speed:.1}"),
        );
        let (y, end) = (down(speed), width - right);
        let _ = writeln!(lines, "<path d=\"M{left} {y:.1}H{end}\" stroke=\"#dddddd\"/>");
    }
    // Names stand beside the ends of their curves, and not on each other.
    let mut ends: Vec<(f64, &str, &str)> = Vec::new();
    for ((name, speeds), colour) in curves.iter().zip(COLOURS) {
        let points = marks
            .iter()
            .zip(speeds)
            .map(|(mark, speed)| format!("{:.1},{:.1}", across(*mark), down(*speed)));
        let points: Vec<String> = points.collect();
        let _ = writeln!(
            lines,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        ends.extend(speeds.last().map(|speed| (down(*speed), *name, colour)));
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::NEG_INFINITY;
    for (y, name, colour) in ends {
        lowest = (lowest + 14.0).max(y);
        text(width - right + 8.0, lowest + 4.0, "start", colour, name);
    }
    svg + &lines + "</svg>\n"
}
