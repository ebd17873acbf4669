//! Tables for people.

use std::io::{self, IsTerminal};

use serde_json::Value;

use crate::output::shown;

/// Rows under heads, as wide as their contents.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self {
            heads: heads.iter().map(|&head| head.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.cells(cells.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row of as many cells as there are heads. Of a long one, the beginning is shown: names
    /// come from clients, and one of them must not push the others out of sight.
    pub(crate) fn cells(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heads.len(), "a cell for each head");
        self.rows.push(cells.into_iter().map(shortened).collect());
    }

    /// The text; its heads are bold where somebody looks at a terminal.
    pub(crate) fn render(&self) -> String {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.render_with(io::stdout().is_terminal() && !no_color)
    }

    fn render_with(&self, is_bold: bool) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.heads]);
            cells
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut text = line(&self.heads);
        if is_bold {
            text = format!("\u{1B}[1m{text}\u{1B}[0m");
        }
        text.push('\n');
        for row in &self.rows {
            text += &line(row);
            text.push('\n');
        }
        text
    }
}

/// Characters of a cell.
const CELL_MAX: usize = 200;

/// The beginning of a long text.
fn shortened(cell: String) -> String {
    match cell.char_indices().nth(CELL_MAX) {
        None => cell,
        Some((end, _)) => {
            let left = cell[end..].chars().count();
            format!("{}… ({left} more)", &cell[..end])
        }
    }
}

/// A value for people: no quotes, `-` for nothing. Control characters, which a client may have put
/// into its id, do not reach the terminal.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => shown(text),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(object) => {
            let pairs = object.iter().map(|(name, value)| match value {
                Value::Object(_) => format!("{name} ({})", plain(value)),
                _ => format!("{name} {}", plain(value)),
            });
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A text of somebody else's for people; `-` for nothing.
pub(crate) fn maybe(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), shown)
}

/// One line for each thing: what it is, and what is said of it.
pub(crate) fn lines(rows: &[(&str, String)]) -> String {
    let names = rows.iter().map(|(name, _)| name.chars().count());
    let width = names.max().unwrap_or(0);
    let lines = rows
        .iter()
        .map(|(name, value)| format!("{name:<width$}  {value}\n"));
    lines.collect()
}

/// `3d 4h`, `5m 6s`: the two largest units.
pub(crate) fn duration(secs: u64) -> String {
    let (minutes, hours, days) = (secs / 60, secs / 3_600, secs / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", secs % 60),
        (0, hours, _) => format!("{hours}h {}m", minutes % 60),
        (days, ..) => format!("{days}d {}h", hours % 24),
    }
}

/// `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if size < 1_024.0 {
            break;
        }
        size /= 1_024.0;
        unit = next;
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{size:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let mut table = Table::new(&["A", "LONG"]);
        table.row(["wide".into(), "x".into()]);
        assert_eq!(table.render_with(false), "A     LONG\nwide  x\n");
        assert!(
            table
                .render_with(true)
                .starts_with("\u{1B}[1mA     LONG\u{1B}[0m\n")
        );
    }

    #[test]
    fn a_long_cell_is_cut() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["x".repeat(100_000), "y".into()]);
        let text = table.render_with(false);
        assert!(text.contains("… (99800 more)  y\n"), "{text}");
        assert!(text.lines().all(|line| line.len() < 300), "{text}");
    }

    #[test]
    fn values_are_shown_without_their_syntax() {
        assert_eq!(
            plain(&json!({"a": 1, "b": {"c": [1, "x"]}})),
            "a 1, b (c 1, x)"
        );
        assert_eq!(plain(&json!(null)), "-");
        assert_eq!(plain(&json!("a\u{1B}[2J")), "a\\u{1b}[2J");
        assert_eq!(duration(59), "59s");
        assert_eq!(duration(3_599), "59m 59s");
        assert_eq!(duration(90_000), "1d 1h");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
    }
}
