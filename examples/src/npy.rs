//! Matrices of `f32` in numpy's `.npy` format.

use std::io::{self, Write};

/// Writes a matrix: `numpy.load` gives an array of shape (`rows.len()`, `columns`) and type `float32`.
///
/// # Errors
/// What the writer returns, and `InvalidData` for a row that hasn't `columns` values.
pub fn write_matrix<R>(out: &mut dyn Write, columns: usize, rows: impl ExactSizeIterator<Item = R>) -> io::Result<()>
where
    R: AsRef<[f32]>,
{
    out.write_all(&header(rows.len(), columns))?;
    let mut bytes = Vec::with_capacity(4 * columns);
    for row in rows {
        let row = row.as_ref();
        if row.len() != columns {
            let problem = format!("a row of {} values in a matrix of {columns} columns", row.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        bytes.clear();
        bytes.extend(row.iter().flat_map(|x| x.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Magic string, version 1.0, and a dictionary padded so that the values begin at a multiple of 64 bytes.
fn header(rows: usize, columns: usize) -> Vec<u8> {
    const PREAMBLE: usize = 10;
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let unpadded = PREAMBLE + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // Two numbers of at most 20 digits: the length fits.
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.bytes());
    header
}
