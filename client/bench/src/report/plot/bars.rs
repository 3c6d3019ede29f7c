//! Horizontal bars: one per row, of one part or several, with single measurements as marks.

use super::{Canvas, colour, shade};

/// Height of a row: its text, and its bar below.
const ROW: f64 = 44.0;
const BAR: f64 = 15.0;

/// A row.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Label of the bar.
    pub name: String,
    /// Value in words.
    pub value: String,
    /// Parts of the bar, from the left.
    pub parts: Vec<Part>,
    /// Single measurements, drawn as marks; the least and the greatest are joined by a line.
    pub marks: Vec<f64>,
}

/// A part of a bar.
#[derive(Debug, Clone)]
pub struct Part {
    /// Number of the series, which decides the colour.
    pub series: usize,
    /// Length of the part.
    pub length: f64,
    /// Text that is shown under the pointer.
    pub title: String,
}

impl Bar {
    /// Returns a bar of one part.
    pub fn new(name: &str, series: usize, length: f64, value: &str) -> Self {
        let title = format!("{name}: {value}");
        let parts = vec![Part { series, length, title }];
        Self { name: name.to_owned(), value: value.to_owned(), parts, marks: Vec::new() }
    }

    fn end(&self) -> f64 {
        let length: f64 = self.parts.iter().map(|part| part.length).sum();
        self.marks.iter().copied().fold(length, f64::max)
    }
}

/// A plot of rows on one scale that begins at zero.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Description of the plot for readers who cannot see it.
    pub label: String,
    /// Names of the parts' series; empty if rows have one part.
    pub legend: Vec<String>,
    /// Rows of the plot.
    pub rows: Vec<Bar>,
}

impl Bars {
    /// Draws the plot as SVG.
    pub fn svg(&self, width: f64) -> String {
        let mut canvas = Canvas::new(width);
        let legend: Vec<_> =
            self.legend.iter().enumerate().map(|(n, name)| (shade(n), name.clone())).collect();
        // Parts have other colours than layers.
        let class = if self.legend.is_empty() { colour } else { shade };
        let top = canvas.legend(&legend);
        let longest = self.rows.iter().map(Bar::end).fold(f64::MIN_POSITIVE, f64::max);
        let scale = |value: f64| value / longest * width;
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + index as f64 * ROW;
            canvas.label("name", "start", (0.0, y + 16.0), &row.name);
            canvas.label("value", "end", (width, y + 16.0), &row.value);
            canvas.rect("track", [0.0, y + 22.0, width, BAR], &row.value);
            let mut x = 0.0;
            for part in &row.parts {
                let length = scale(part.length);
                canvas.rect(&class(part.series), [x, y + 22.0, length, BAR], &part.title);
                x += length;
            }
            let middle = y + 22.0 + BAR / 2.0;
            let least = row.marks.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = row.marks.iter().copied().fold(0.0, f64::max);
            if row.marks.len() > 1 {
                canvas.line("spread", [scale(least), middle, scale(greatest), middle]);
            }
            for mark in &row.marks {
                let x = scale(*mark);
                canvas.line("spread", [x, middle - 5.0, x, middle + 5.0]);
            }
        }
        canvas.finish(top + self.rows.len() as f64 * ROW, &self.label)
    }
}
