//! Rows whose width is known at run time, in files and checkpoints.

use crate::common::{mix, session};
use stradsap::prelude::*;

/// What is written can be read, as a matrix, as arrays, and by others; files of other shapes are refused in words.
#[test]
fn matrices_go_into_files_and_back() -> stradsap::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let session = session(2);
    let m = DMatrix::from_fn(&session, 1000, 300, |i, k| mix((i * 300 + k) as u64) as f32)?;
    m.write_npy(path("m.npy"))?;
    let again = session.read_npy_rows::<f32>(path("m.npy"))?;
    assert_eq!((again.width(), again.digest()?), (300, m.digest()?));
    assert_eq!(session.read_npy::<[f32; 300]>(path("m.npy"))?.digest()?, m.digest()?);
    let deep = DMatrix::from_fn(&session, 4, 2, |i, k| [i as u8, k as u8, 7])?;
    deep.write_npy(path("deep.npy"))?;
    assert_eq!(session.read_npy_rows::<[u8; 3]>(path("deep.npy"))?.to_vec()?, deep.to_vec()?);
    assert_eq!(session.read_npy::<[[u8; 3]; 2]>(path("deep.npy"))?.get(3)?, [[3, 0, 7], [3, 1, 7]]);

    // Several files as one; none of rows.
    for (name, rows, width) in [("part-1.npy", 3, 5), ("part-2.npy", 4, 5), ("odd-1.npy", 2, 5), ("odd-2.npy", 2, 6)] {
        DMatrix::from_fn(&session, rows, width, |i, k| (i + k) as i64)?.write_npy(path(name))?;
    }
    let parts = session.read_npy_rows::<i64>(path("part-*.npy"))?;
    assert_eq!((parts.len(), parts.get(3)?), (7, vec![0, 1, 2, 3, 4]));
    let empty = DMatrix::<f64>::from_vec(&session, 9, vec![])?;
    empty.write_npy(path("empty.npy"))?;
    let read = session.read_npy_rows::<f64>(path("empty.npy"))?;
    assert_eq!((read.len(), read.width()), (0, 9));

    DVector::from_fn(&session, 6, |i| i as f32)?.write_npy(path("line.npy"))?;
    let bytes = std::fs::read(path("m.npy")).unwrap();
    std::fs::write(path("short.npy"), &bytes[..bytes.len() - 1200]).unwrap();
    for (name, said) in [
        ("line.npy", "the array's shape is (6,); (rows, width) was expected"),
        ("deep.npy", "\"|u1\"; \"<f4\" was expected"),
        ("short.npy", "the header promises 1000 rows of 300 numbers, but 299700 numbers follow"),
    ] {
        let error = session.read_npy_rows::<f32>(path(name)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let error = session.read_npy_rows::<i64>(path("odd-*.npy")).unwrap_err().to_string();
    assert!(error.contains("rows have 6 numbers, and those of the first file 5"), "{error}");
    let error = session.read_npy::<f32>(path("m.npy")).unwrap_err().to_string();
    assert!(error.contains("(1000, 300)"), "{error}");

    let arrays = DVector::from_fn(&session, 1000, |i| <[f32; 300]>::try_from(m.get(i).unwrap()).unwrap())?;
    m.write_safetensors(path("m.safetensors"), "m")?;
    arrays.write_safetensors(path("arrays.safetensors"), "m")?;
    let words: Vec<String> = (0..1000).map(|i| format!("w{i}")).collect();
    m.write_word2vec_text(path("m.txt"), &words)?;
    arrays.write_word2vec_text(path("arrays.txt"), &words)?;
    m.write_word2vec_binary(path("m.bin"), &words)?;
    arrays.write_word2vec_binary(path("arrays.bin"), &words)?;
    for end in ["npy", "safetensors", "csv", "tsv", "csv.gz"] {
        m.store(path(&format!("m.stored.{end}")))?;
        arrays.store(path(&format!("arrays.stored.{end}")))?;
    }
    m.write_csv(path("m.csv"))?;
    arrays.store(path("arrays.csv"))?;
    let tables = ["csv", "stored.npy", "stored.safetensors", "stored.csv", "stored.tsv", "stored.csv.gz"];
    for end in ["safetensors", "txt", "bin"].into_iter().chain(tables) {
        let read = |name| std::fs::read(path(&format!("{name}.{end}"))).unwrap();
        assert!(read("m") == read("arrays"), "{end}");
    }
    let table = session.read_csv_with::<Vec<f32>>(path("m.csv"), &stradsap::Csv::new().header(false))?;
    assert_eq!(DMatrix::from_rows(&session, table.iter()?)?.digest()?, m.digest()?);
    let error = m.store(path("m.parquet")).unwrap_err().to_string();
    assert!(error.ends_with("a name that ends in .npy, .safetensors, .csv or .tsv was expected"), "{error}");
    Ok(())
}

/// From a checkpoint a loop goes on as if nothing had been, and arrays and matrices are read as each other.
#[test]
fn matrices_come_back_from_checkpoints() -> stradsap::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let session = session(2);
    let step = |m: &mut DMatrix<f32>| async_parallel_for!(0..m.len(), [&mut m], |i| m[i][i % 20] += 0.5).map(drop);
    let mut m = DMatrix::from_fn(&session, 100, 20, |i, k| (i * k) as f32)?;
    let arrays = DVector::from_fn(&session, 3, |i| [i as u64; 4])?;
    let mut checkpoints = Checkpoints::new(folder.path(), 1)?;
    for epoch in 1..=3 {
        step(&mut m)?;
        checkpoints.save(epoch, &(), &[("m", &m), ("arrays", &arrays)])?;
    }
    checkpoints.finish()?;

    let checkpoint = checkpoints.resume()?.unwrap();
    let mut again = checkpoint.matrix::<f32>(&session, "m")?;
    assert_eq!(again.digest()?, m.digest()?);
    assert_eq!(checkpoint.vector::<[f32; 20]>(&session, "m")?.digest()?, m.digest()?);
    assert_eq!(checkpoint.matrix::<u64>(&session, "arrays")?.get(2)?, [2; 4]);
    step(&mut m)?;
    step(&mut again)?;
    assert_eq!(again.to_vec()?, m.to_vec()?);
    for error in [checkpoint.matrix::<[f32; 3]>(&session, "m").err(), checkpoint.matrix::<f32>(&session, "n").err()] {
        let error = error.unwrap().to_string();
        assert!(error.contains("were expected") || error.contains("it holds no vector `n`"), "{error}");
    }
    Ok(())
}
