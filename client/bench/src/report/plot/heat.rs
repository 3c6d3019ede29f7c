//! A heat map: ratios as colours, from far below one to far above.

use super::{CHARACTER, Canvas, short};

/// Height of a row.
const ROW: f64 = 22.0;
/// Ratios at which the colour changes. The middle colour is for ratios near one.
const STEPS: [f64; 6] = [0.25, 0.5, 0.8, 1.25, 2.0, 4.0];

/// A row of the map.
#[derive(Debug, Clone)]
pub struct HeatRow {
    /// Label of the row.
    pub name: String,
    /// Ratio for each column, if there is one.
    pub ratios: Vec<Option<f64>>,
}

/// A heat map.
#[derive(Debug, Clone)]
pub struct Heat {
    /// Description of the map for readers who cannot see it.
    pub label: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows of the map.
    pub rows: Vec<HeatRow>,
}

impl Heat {
    /// Draws the map as SVG.
    pub fn svg(&self, width: f64) -> String {
        let mut canvas = Canvas::new(width);
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let left = CHARACTER * longest as f64 + 10.0;
        let cell = (width - left).max(0.0) / self.columns.len().max(1) as f64;
        let x = |column: usize| left + column as f64 * cell;
        for (column, name) in self.columns.iter().enumerate() {
            canvas.label("name", "middle", (x(column) + cell / 2.0, 14.0), name);
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = ROW * (index as f64 + 1.0);
            canvas.label("", "start", (0.0, y + 15.0), &row.name);
            for (column, ratio) in row.ratios.iter().enumerate() {
                let Some(ratio) = ratio else { continue };
                let title = format!("{}, {}: {} x", row.name, self.columns[column], short(*ratio));
                let place = [x(column) + 1.0, y + 1.0, cell - 2.0, ROW - 2.0];
                canvas.rect(&format!("h{}", shade(*ratio)), place, &title);
                let middle = (x(column) + cell / 2.0, y + 15.0);
                canvas.label("value", "middle", middle, &short(*ratio));
            }
        }
        canvas.finish(ROW * (self.rows.len() as f64 + 1.0), &self.label)
    }
}

/// Returns the number of the colour.
fn shade(ratio: f64) -> usize {
    STEPS.iter().filter(|step| ratio >= **step).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_ratios() {
        assert_eq!([0.1, 0.3, 0.6, 1.0, 1.5, 3.0, 9.0].map(shade), [0, 1, 2, 3, 4, 5, 6]);
        let row = HeatRow { name: "a<b".into(), ratios: vec![Some(0.5), None] };
        let columns = vec!["mpt".to_owned(), "raw".to_owned()];
        let heat = Heat { label: "map".into(), columns, rows: vec![row] };
        let svg = heat.svg(300.0);
        assert_eq!(svg.matches("class=\"h").count(), 1);
        assert!(svg.contains("a&lt;b"));
    }
}
