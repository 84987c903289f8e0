//! A table, for people (aligned columns) and for programs (CSV).

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, anyhow};

/// Rows of cells under a heading.
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(heading: &[&str]) -> Self {
        Self { heading: heading.iter().map(|&column| column.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row; one cell a column.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.heading.len(), "one cell a column");
        self.rows.push(row);
    }

    /// Adds the rows of another table with the same columns.
    pub fn append(&mut self, other: Self) {
        other.rows.into_iter().for_each(|row| self.push(row));
    }

    /// Writes the table as CSV.
    ///
    /// # Errors
    /// As `out`.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.heading.join(","))?;
        for row in &self.rows {
            writeln!(out, "{}", row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(","))?;
        }
        out.flush()
    }
}

/// The file that a table will be written to, opened before anything is measured.
///
/// # Errors
/// The file can't be created.
pub fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| anyhow!("can't write {}: {error}", path.display()))
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// Columns of equal width: the left-most flush left, numbers flush right.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heading[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            let mut line = String::new();
            for ((column, cell), &width) in row.iter().enumerate().zip(&widths) {
                let words = self.rows.iter().any(|row| row[column].contains(char::is_alphabetic));
                line += &if words { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", "s"]);
        table.push(vec!["a".into(), "10.5".into()]);
        table.push(vec!["longer".into(), "2".into()]);
        assert_eq!(table.to_string(), "name       s\na       10.5\nlonger     2\n");
    }
}
