//! Line plots over numbers.

use super::{CHARACTER, Canvas, colour, short, ticks};

/// A line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Label of the line.
    pub name: String,
    /// Number of the series, which decides the colour.
    pub series: usize,
    /// Whether the line is dashed, with hollow points: for a figure from elsewhere, or if an earlier series has the
    /// colour.
    pub dashed: bool,
    /// Points of the line.
    pub points: Vec<(f64, f64)>,
}

/// A plot of lines on common axes; the vertical one begins at zero.
#[derive(Debug, Clone)]
pub struct Lines {
    /// Description of the plot for readers who cannot see it.
    pub label: String,
    /// Title of the horizontal axis.
    pub x: String,
    /// Title of the vertical axis.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Names of places on the horizontal axis; if there are none, places are numbers.
    pub names: Vec<(f64, String)>,
    /// Whether points are marked.
    pub marked: bool,
    /// Lines of the plot.
    pub lines: Vec<Line>,
}

impl Lines {
    /// Draws the plot as SVG.
    pub fn svg(&self, width: f64) -> String {
        let mut canvas = Canvas::new(width);
        let entries: Vec<_> =
            self.lines.iter().map(|line| (class(line, "swatch"), line.name.clone())).collect();
        let legend = canvas.legend(&entries);
        let (left, right) = (46.0, width - 10.0);
        let (top, bottom) = (legend + 26.0, legend + 26.0 + (width * 0.45).clamp(170.0, 280.0));
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let place = |x: f64| if self.log_x { x.max(f64::MIN_POSITIVE).log10() } else { x };
        let least = points().map(|(x, _)| place(*x)).fold(f64::INFINITY, f64::min);
        let most = points().map(|(x, _)| place(*x)).fold(f64::NEG_INFINITY, f64::max);
        let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let ticks = ticks(highest, 5);
        let top_value = ticks.last().copied().unwrap_or(1.0);
        let across = |x: f64| match most > least {
            true => left + 8.0 + (place(x) - least) / (most - least) * (right - left - 22.0),
            false => f64::midpoint(left, right),
        };
        let up = |y: f64| bottom - y / top_value * (bottom - top);

        canvas.label("axis", "start", (0.0, top - 12.0), &self.y);
        for tick in &ticks {
            let y = up(*tick);
            canvas.line("grid", [left, y, right, y]);
            canvas.label("axis", "end", (left - 6.0, y + 4.0), &short(*tick));
        }
        let mut free = f64::NEG_INFINITY;
        for (x, name) in self.places(least, most) {
            let half = name.chars().count() as f64 * CHARACTER / 2.0;
            let at = across(x).clamp(left + half - 8.0, width - half);
            if at - half > free {
                canvas.label("axis", "middle", (at, bottom + 18.0), &name);
                free = at + half + 6.0;
            }
        }
        canvas.label("axis", "middle", (f64::midpoint(left, right), bottom + 38.0), &self.x);
        for line in &self.lines {
            let places: Vec<_> = line.points.iter().map(|(x, y)| (across(*x), up(*y))).collect();
            if places.len() > 1 {
                canvas.path(&class(line, "line"), &places);
            }
            if self.marked || places.len() == 1 {
                for (place, (x, y)) in places.iter().zip(&line.points) {
                    let title = format!("{} at {}: {}", line.name, self.name_of(*x), short(*y));
                    canvas.dot(&class(line, "dot"), *place, &title);
                }
            }
        }
        canvas.finish(bottom + 46.0, &self.label)
    }

    fn name_of(&self, x: f64) -> String {
        let named = self.names.iter().find(|(place, _)| *place == x);
        named.map_or_else(|| short(x), |(_, name)| name.clone())
    }

    /// Returns the places on the horizontal axis that have a label, and their labels.
    fn places(&self, least: f64, most: f64) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            return self.names.clone();
        }
        if !self.log_x {
            let inside = |x: &f64| (least..=most).contains(x);
            return ticks(most, 6).into_iter().filter(inside).map(|x| (x, short(x))).collect();
        }
        let mut all: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all.into_iter().map(|x| (x, short(x))).collect()
    }
}

fn class(line: &Line, kind: &str) -> String {
    let dashed = if line.dashed { " dashed" } else { "" };
    format!("{kind} {}{dashed}", colour(line.series))
}
