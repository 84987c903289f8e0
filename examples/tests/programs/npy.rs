//! Matrices stored as `.npy` hold what was given, in the layout that numpy's format document sets out.

use stradsap_examples::npy::write_matrix;

/// The shape and the values of a file as [`write_matrix`] makes it.
fn read(file: &[u8]) -> Option<((usize, usize), Vec<f32>)> {
    assert_eq!(&file[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([file[8], file[9]]));
    assert_eq!((10 + length) % 64, 0, "values are aligned");
    let header = std::str::from_utf8(&file[10..10 + length]).ok()?.strip_suffix('\n')?;
    let shape = header.trim_end().strip_prefix("{'descr': '<f4', 'fortran_order': False, 'shape': (")?;
    let (rows, columns) = shape.strip_suffix("), }")?.split_once(", ")?;
    let values = file[10 + length..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Some(((rows.parse().ok()?, columns.parse().ok()?), values.collect()))
}

#[test]
fn a_matrix_comes_back() {
    for rows in [0usize, 1, 3, 1000, 123_456] {
        let matrix: Vec<[f32; 3]> = (0..rows).map(|i| [i as f32, -0.5, f32::MIN_POSITIVE]).collect();
        let mut file = Vec::new();
        write_matrix(&mut file, 3, matrix.iter()).unwrap();
        assert_eq!(read(&file), Some(((rows, 3), matrix.concat())));
    }
}

#[test]
fn rows_of_another_length_are_refused() {
    let error = write_matrix(&mut Vec::new(), 3, [[1.0f32, 2.0]].iter()).unwrap_err();
    assert_eq!(error.to_string(), "a row of 2 values in a matrix of 3 columns");
}
