//! The hash of a model.

use std::fmt;

/// The hash of a model's numbers. Hashes are equal if and only if the models have the same bits. Use it to compare two runs: of one
/// program on different numbers of threads or processes, or of a program and its sequential twin.
///
/// [`DVector::digest`](crate::DVector::digest) hashes one vector of any elements. A `Digest` hashes all numbers of a model,
/// wherever they are kept.
///
/// # Examples
/// ```
/// use stradsap::Digest;
///
/// let (p, q) = ([[1.0f32, 2.0], [3.0, 4.0]], [[0.5f32, 0.25]]);
/// let digest = Digest::new().matrix(p).matrix(q);
/// assert_eq!(digest.to_string(), Digest::new().matrix([[1.0f32, 2.0], [3.0, 4.0], [0.5, 0.25]]).to_string());
/// assert_ne!(digest.to_string(), Digest::new().matrix(q).matrix(p).to_string());
/// println!("model {digest}"); // model blake3:...
/// ```
///
/// # Cost
/// One pass over the numbers, and the memory of a row.
///
/// # Determinism
/// The hash depends on the bits of the numbers and on their order: 0 and -0 differ. It doesn't depend on where rows end.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Digest {
    hasher: blake3::Hasher,
    bytes: Vec<u8>,
}

impl Digest {
    /// The hash of no numbers.
    pub fn new() -> Digest {
        Digest::default()
    }

    /// Adds the rows of a matrix, as little-endian numbers.
    pub fn matrix<R: AsRef<[f32]>>(mut self, rows: impl IntoIterator<Item = R>) -> Digest {
        for row in rows {
            self.bytes.clear();
            self.bytes.extend(row.as_ref().iter().flat_map(|x| x.to_le_bytes()));
            self.hasher.update(&self.bytes);
        }
        self
    }

    /// Adds the values of a vector, as little-endian numbers.
    pub fn vector(mut self, values: impl IntoIterator<Item = f64>) -> Digest {
        for x in values {
            self.hasher.update(&x.to_le_bytes());
        }
        self
    }
}

/// `blake3:` and 64 hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}", self.hasher.finalize().to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_every_value_and_its_place() {
        let digest = |rows: &[[f32; 2]]| Digest::new().matrix(rows.iter()).to_string();
        let one = digest(&[[1.0, 2.0], [3.0, 4.0]]);
        assert!(one.starts_with("blake3:") && one.len() == 7 + 64, "{one}");
        assert_ne!(one, digest(&[[1.0, 2.0], [4.0, 3.0]]));
        assert_ne!(digest(&[[0.0, 0.0]]), digest(&[[-0.0, 0.0]]));
        let parts = Digest::new().matrix([[1.0f32, 2.0]].iter()).matrix([[3.0f32, 4.0]].iter());
        assert_eq!(one, parts.to_string());
    }

    #[test]
    fn numbers_are_hashed_as_little_endian_bytes() {
        let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).chain(0.1f64.to_le_bytes()).collect();
        let expected = format!("blake3:{}", blake3::hash(&bytes).to_hex());
        assert_eq!(Digest::new().matrix([[1.5f32, -2.0]]).vector([0.1]).to_string(), expected);
    }
}
