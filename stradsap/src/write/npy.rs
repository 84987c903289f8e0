//! Arrays in numpy's `.npy` format.

use std::path::Path;

use super::{Numbers, atomic, little_endian};
use crate::numeric::shape_text;
use crate::{Numeric, Result};

pub(super) fn write<T: Numeric, D: Numbers<Number = T>>(array: &D, path: &Path) -> Result<()> {
    atomic::write(path, |out| {
        out.write_all(&header::<T>(&array.shape()))?;
        let mut bytes = Vec::new();
        array.each(|numbers| {
            little_endian(numbers, &mut bytes);
            Ok(out.write_all(&bytes)?)
        })
    })
}

/// Magic string, version 1.0, and a dictionary padded so that the numbers begin at a multiple of 64 bytes.
fn header<T: Numeric>(shape: &[usize]) -> Vec<u8> {
    const PREAMBLE: usize = 10;
    let (descr, shape) = (T::scalar().descr(), shape_text(shape));
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let unpadded = PREAMBLE + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // A length for each level of a nested array type: far fewer than 65,536 bytes.
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.bytes());
    header
}
