//! Serialising lists of numbers as their memory, for serde's `with`: there may be millions of them.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Writes the numbers as one run of bytes.
pub fn serialize<S: Serializer>(numbers: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut bytes = vec![0; 4 * numbers.len()];
    for (place, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    serializer.serialize_bytes(&bytes)
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    deserializer.deserialize_bytes(Numbers)
}

struct Numbers;

impl Visitor<'_> for Numbers {
    type Value = Vec<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers of 4 bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u32>, E> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        if rest.is_empty() {
            Ok(numbers.iter().map(|&number| u32::from_le_bytes(number)).collect())
        } else {
            Err(E::invalid_length(bytes.len(), &self))
        }
    }
}

#[cfg(test)]
mod tests {
    use bincode::config::standard;
    use bincode::serde::{decode_from_slice, encode_to_vec};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "super")] Vec<u32>);

    #[test]
    fn numbers_come_back_and_torn_ones_don_t() {
        for numbers in [Vec::new(), vec![7], (0..1000).map(|n| n * 4_000_037).collect()] {
            let numbers = Wrapped(numbers);
            let bytes = encode_to_vec(&numbers, standard()).unwrap();
            let (back, read): (Wrapped, usize) = decode_from_slice(&bytes, standard()).unwrap();
            assert_eq!((back, read), (numbers, bytes.len()));
        }
        let torn = encode_to_vec(vec![1u8, 2, 3, 4, 5], standard()).unwrap();
        assert!(decode_from_slice::<Wrapped, _>(&torn, standard()).is_err());
    }
}
