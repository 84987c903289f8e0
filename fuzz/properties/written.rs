//! What the writers write, as other programs read it.

use std::fs;

use safetensors::SafeTensors;
use stradsap::{DVector, Error, WriteFiles, WriteWordVectors, open_unpacked, write_safetensors};

use super::place::{Place, place};

/// The bytes are rows of numbers; the first of them are names and words.
pub fn written(bytes: &[u8]) {
    let (text, numbers) = bytes.split_at(bytes.len().min(12));
    let names: Vec<_> = text.chunks(3).map(String::from_utf8_lossy).collect();
    let (rows, _) = numbers.as_chunks::<12>();
    let rows: Vec<[f32; 3]> = rows
        .iter()
        .map(|row| [0, 4, 8].map(|at| f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]])))
        .collect();
    place(|place| {
        let vector = DVector::from_vec(&place.session, rows.clone()).expect("few rows");
        tensors(place, &vector, numbers, &names);
        // A word for each row, as long as there are any; the same may come twice.
        let words: Vec<_> = names.iter().cycle().take(rows.len()).collect();
        words_and_rows(place, &vector, &rows, &words);
        let path = place.path("rows.csv.gz");
        vector.store(&path).expect("a table");
        let mut packed = String::new();
        let mut from = open_unpacked(&path).expect("it was written");
        std::io::Read::read_to_string(&mut from, &mut packed).expect("it was packed");
        let lines: Vec<_> = packed.lines().map(|line| numbers_of(line.split(','))).collect();
        same(&lines, &rows);
    });
}

fn tensors(place: &Place, vector: &DVector<[f32; 3]>, numbers: &[u8], names: &[std::borrow::Cow<'_, str>]) {
    let path = place.path("rows.safetensors");
    let tensors: Vec<(&str, &dyn stradsap::Tensor)> =
        names.iter().map(|name| (name.as_ref(), vector as &dyn stradsap::Tensor)).collect();
    match write_safetensors(&path, &tensors) {
        Ok(()) => {
            let bytes = fs::read(&path).expect("it was written");
            let file = SafeTensors::deserialize(&bytes).expect("it was written");
            assert_eq!(file.len(), names.len());
            for name in names {
                let tensor = file.tensor(name).expect("it was written");
                assert_eq!(tensor.shape(), [vector.len(), 3]);
                assert_eq!(tensor.data(), &numbers[..vector.len() * 12]);
            }
        }
        Err(error) => {
            assert!(matches!(error, Error::File { .. }), "{error}");
            let twice = (1..names.len()).any(|k| names[..k].contains(&names[k]));
            assert!(twice || names.iter().any(|name| name == "__metadata__"), "{error}");
        }
    }
}

fn words_and_rows(place: &Place, vector: &DVector<[f32; 3]>, rows: &[[f32; 3]], words: &[impl AsRef<str>]) {
    let (text, binary) = (place.path("words.txt"), place.path("words.bin"));
    let done = vector.write_word2vec_text(&text, words);
    assert_eq!(done.is_ok(), vector.write_word2vec_binary(&binary, words).is_ok());
    if words.iter().any(|word| word.as_ref().is_empty() || word.as_ref().contains(char::is_whitespace))
        || words.len() != rows.len()
    {
        assert_eq!(done.expect_err("no such word").exit_code(), 2);
        return;
    }
    done.expect("words without blanks");
    let text = fs::read_to_string(text).expect("it was written");
    let mut lines = text.split_terminator('\n');
    assert_eq!(lines.next(), Some(format!("{} 3", rows.len()).as_str()));
    let read = lines.zip(words).map(|(line, word)| {
        let mut fields = line.split(' ');
        assert_eq!(fields.next(), Some(word.as_ref()));
        numbers_of(fields)
    });
    same(&read.collect::<Vec<_>>(), rows);
    let mut rest = fs::read(binary).expect("it was written");
    rest.drain(..=rest.iter().position(|byte| *byte == b'\n').expect("a first line"));
    let want: Vec<u8> = rows
        .iter()
        .zip(words)
        .flat_map(|(row, word)| [word.as_ref().as_bytes(), b" ", &row.map(f32::to_le_bytes).concat(), b"\n"].concat())
        .collect();
    assert_eq!(rest, want);
}

fn numbers_of<'t>(texts: impl Iterator<Item = &'t str>) -> [f32; 3] {
    let numbers: Vec<f32> = texts.map(|text| text.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

/// The same bits; a number that is none is written as `NaN`, whichever it was.
fn same(read: &[[f32; 3]], rows: &[[f32; 3]]) {
    let bits = |rows: &[[f32; 3]]| -> Vec<_> {
        rows.iter().map(|row| row.map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() })).collect()
    };
    assert_eq!(bits(read), bits(rows));
}
