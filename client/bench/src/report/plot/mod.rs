//! Plots as SVG: bars and lines, in the colours of `plot.css`, which has light and dark ones.
//!
//! A plot is drawn for a width. A page contains it twice, for wide and for narrow screens, so that its text is
//! never scaled.

mod bars;
mod heat;
mod lines;

pub use bars::{Bar, Bars, Part};
pub use heat::{Heat, HeatRow};
pub use lines::{Line, Lines};

use std::fmt::Write;

/// Colours and text style of plots.
pub const STYLE: &str = include_str!("plot.css");
/// Number of colours; the ninth series has the first colour again.
pub const COLOURS: usize = 8;
/// Mean width of a character in a plot.
const CHARACTER: f64 = 6.6;

/// Returns the class that gives a series its colour.
fn colour(series: usize) -> String {
    format!("c{}", series % COLOURS)
}

/// Returns the class that gives a part of a bar its colour.
fn shade(part: usize) -> String {
    format!("p{}", part % 4)
}

/// Returns a plot as a separate SVG file.
pub fn standalone(svg: &str) -> String {
    svg.replacen(
        '>',
        &format!("><style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>"),
        1,
    )
}

/// An SVG that is being drawn.
struct Canvas {
    width: f64,
    text: String,
}

impl Canvas {
    fn new(width: f64) -> Self {
        Self { width, text: String::new() }
    }

    fn finish(self, height: f64, label: &str) -> String {
        let (width, label, text) = (self.width, escape(label), self.text);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">{text}</svg>"
        )
    }

    fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        // Writing to a String cannot fail.
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
            width.max(0.0),
            escape(title)
        );
    }

    fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = write!(
            self.text,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn dot(&mut self, class: &str, (x, y): (f64, f64), title: &str) {
        let _ = write!(
            self.text,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"><title>{}</title></circle>",
            escape(title)
        );
    }

    /// Adds text that begins (`start`), ends (`end`) or has its middle (`middle`) at a place.
    fn label(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(
            self.text,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }

    fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(data, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.text, "<path class=\"{class}\" d=\"{data}\"/>");
    }

    /// Adds names of series beside their colours, from the top down. Returns the height that they take.
    fn legend(&mut self, series: &[(String, String)]) -> f64 {
        let (mut x, mut y) = (0.0, 12.0);
        for (class, name) in series {
            let width = 20.0 + CHARACTER * name.chars().count() as f64;
            if x > 0.0 && x + width > self.width {
                (x, y) = (0.0, y + 19.0);
            }
            self.rect(class, [x, y - 9.0, 12.0, 10.0], name);
            self.label("", "start", (x + 17.0, y), name);
            x += width + 14.0;
        }
        if series.is_empty() { 0.0 } else { y + 8.0 }
    }
}

/// Escapes text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes text for HTML, and turns text between backticks into code.
pub fn marked(text: &str) -> String {
    let parts = text.split('`').map(escape).enumerate();
    parts
        .map(|(index, part)| if index % 2 == 0 { part } else { format!("<code>{part}</code>") })
        .collect()
}

/// Formats a number in about five characters: `0.42`, `17.3`, `950`, `12.3k`, `1.5M`.
pub fn short(number: f64) -> String {
    let magnitude = number.abs();
    let (scaled, unit) = match magnitude {
        _ if magnitude >= 999_500_000.0 => (number / 1e9, "G"),
        _ if magnitude >= 999_500.0 => (number / 1e6, "M"),
        _ if magnitude >= 9_999.5 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let digits = match scaled.abs() {
        s if s == 0.0 || s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.095 => 2,
        _ => 3,
    };
    let text = format!("{scaled:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Formats a whole number with a comma between thousands.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < -0.5 { format!("-{text}") } else { text }
}

/// Returns about `count` round numbers from 0 to at least `max`.
fn ticks(max: f64, count: usize) -> Vec<f64> {
    // The step of a number that is all but zero would be zero, and the steps would have no end.
    if max <= 0.0 || !max.is_normal() {
        return vec![0.0, 1.0];
    }
    let rough = max / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let steps = (max / step - 1e-9).ceil().max(1.0) as usize;
    (0..=steps).map(|index| index as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (0.004, "0.004"),
            (0.42, "0.42"),
            (17.26, "17.3"),
            (950.0, "950"),
            (1_234.0, "1234"),
            (12_345.0, "12.3k"),
            (118_000.0, "118k"),
            (1_500_000.0, "1.5M"),
            (26e9, "26G"),
            (100.0, "100"),
            (-3.5, "-3.5"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text);
        }
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
    }

    #[test]
    fn ticks_are_round_and_cover() {
        assert_eq!(ticks(9.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        for none in [0.0, -1.0, 5e-324, f64::INFINITY, f64::NAN] {
            assert_eq!(ticks(none, 5), [0.0, 1.0], "{none}");
        }
        for max in [0.013, 3.0, 117_950.0, 1e9] {
            let found = ticks(max, 5);
            assert!(found.last().is_some_and(|last| *last >= max * 0.999), "{found:?}");
            assert!(found.len() <= 8, "{found:?}");
        }
    }

    #[test]
    fn text_cannot_break_out() {
        let bars = Bars {
            label: "a<b".into(),
            legend: vec![],
            rows: vec![Bar::new("<script>", 0, 1.0, "\"1\"")],
        };
        let svg = bars.svg(300.0);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
        assert!(standalone(&svg).contains("<style>"));
    }
}
