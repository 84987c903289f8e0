//! Programs that use stored models: what they say is what plain sums over the stored files give.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use crate::common::{example, small_ratings, stderr, succeed};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a program prints, the fields of each line.
fn lines(program: &str, arguments: &[&str]) -> Vec<Vec<String>> {
    let printed = String::from_utf8(succeed(program, arguments).stdout).unwrap();
    printed.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn names(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// The rows of a numpy file of `f32`, as many as there are names.
fn rows(path: &Path, count: usize) -> Vec<Vec<f64>> {
    let bytes = fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let values: Vec<f64> =
        bytes[header..].chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect();
    values.chunks_exact(values.len() / count).map(<[f64]>::to_vec).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Names and scores, the best first, are those of `scores`.
fn assert_best(found: &[Vec<String>], mut scores: Vec<(String, f64)>) {
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert!(!found.is_empty());
    for (line, (name, score)) in found.iter().zip(scores) {
        let found: f64 = line[1].parse().unwrap();
        assert!(line[0] == name && (found - score).abs() < 1e-4, "{line:?}; expected {name} {score}");
    }
}

#[test]
fn items_are_recommended_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (data, model) = (small_ratings(folder.path()), folder.path().join("model"));
    succeed("ccdmf", &["--data", text(&data), "--rank", "3", "--epochs", "3", "--output", text(&model)]);
    let (users, items) = (names(&model.join("users.txt")), names(&model.join("items.txt")));
    let (p, q) = (rows(&model.join("p.npy"), users.len()), rows(&model.join("q.npy"), items.len()));
    let user = users.iter().position(|user| user == "u3").unwrap();
    let scores: Vec<_> = items.iter().cloned().zip(q.iter().map(|q| dot(&p[user], q))).collect();
    let found = lines("recommend", &["--model", text(&model), "--user", "u3", "--top", "5"]);
    assert_eq!(found.len(), 5);
    assert_best(&found, scores.clone());
    // What the user has rated is left out.
    let rated = fs::read_to_string(&data).unwrap();
    let unseen = scores.into_iter().filter(|(item, _)| !rated.contains(&format!("u3,{item},"))).collect::<Vec<_>>();
    let found = lines("recommend", &["--model", text(&model), "--user", "u3", "--seen", text(&data), "--top", "1000"]);
    assert_eq!(found.len(), unseen.len());
    assert_best(&found, unseen);
    let output = example("recommend").args(["--model", text(&model), "--user", "nobody"]).output().unwrap();
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(2), "error: the model has no user \"nobody\"\n"));

    let item = items.iter().position(|item| item == "i7").unwrap();
    let cosine = |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    let others = (0..items.len()).filter(|other| *other != item);
    let cosines = others.map(|other| (items[other].clone(), cosine(&q[item], &q[other]))).collect();
    assert_best(&lines("similar", &["--model", text(&model), "i7"]), cosines);
}

#[test]
fn words_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.txt");
    fs::write(&path, "4 2\nking 1 0\nqueen 2 0.5\nfig 0 3\nnothing 0 0\n").unwrap();
    let found = lines("similar", &["--vectors", text(&path), "king"]);
    let expected = [("queen", 2.0 / 4.25f64.sqrt()), ("fig", 0.0), ("nothing", 0.0)];
    assert_best(&found, expected.map(|(name, cosine)| (name.to_owned(), cosine)).to_vec());
    assert_eq!(found.len(), 3);
}

#[test]
fn linear_models_predict() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("x.svm");
    let rows: String = (0..200)
        .map(|n| {
            let (a, b) = (f64::from(n * 37 % 100) / 50.0 - 1.0, f64::from(n * 61 % 100) / 50.0 - 1.0);
            format!("{} 1:{a} 2:{b} 3:{}\n", if a > 0.3 * b { 4 } else { 2 }, a * b)
        })
        .collect();
    fs::write(&data, rows).unwrap();
    let labels: Vec<String> =
        fs::read_to_string(&data).unwrap().lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    for (program, model) in [("svm", "svm.model"), ("logistic", "logistic.model")] {
        let output = folder.path().join(program);
        succeed(program, &["--data", text(&data), "--epochs", "30", "--lambda", "0.001", "--output", text(&output)]);
        let predicted = succeed("predict", &["--model", text(&output.join(model)), "--data", text(&data)]);
        let said = String::from_utf8(predicted.stdout.clone()).unwrap();
        let right = said.lines().zip(&labels).filter(|(predicted, label)| predicted == label).count();
        assert!(right > 180 && said.lines().count() == 200, "{program}: {right}");
        let accuracy = format!("{right} of 200 labels are as predicted: {:.4}\n", right as f64 / 200.0);
        assert_eq!(stderr(&predicted), accuracy);
    }
    let model = folder.path().join("m");
    fs::write(&model, "lambda 1\nintercept 9\nnr_feature 3\nw\nlambda 0.5\nintercept 0.5\nnr_feature 3\nw 1:2 3:-1\n")
        .unwrap();
    fs::write(&data, "2 1:1\n-1 1:0.5 2:7 3:2 9:100\n").unwrap();
    let predicted = succeed("predict", &["--model", text(&model), "--data", text(&data)]);
    assert_eq!(String::from_utf8_lossy(&predicted.stdout), "2.5\n-0.5\n");
    assert_eq!(stderr(&predicted), "root-mean-square error 0.500000 over 2 examples\n");
    fs::write(&model, "lambda 1\nnr_feature 1\nw 2:1\n").unwrap();
    let output = example("predict").args(["--model", text(&model), "--data", text(&data)]).output().unwrap();
    let expected = format!("error: {}:3: an index from 1 to nr_feature was expected\n", model.display());
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected));
}

#[test]
fn topics_are_inferred() {
    let folder = tempfile::tempdir().unwrap();
    let (data, model) = (folder.path().join("docword.txt"), folder.path().join("model"));
    // Documents of the first four words and of the last four, and one of all.
    let entries: Vec<String> = (1..=40)
        .flat_map(|document| (1..=4).map(move |word| (document, word + if document % 2 == 0 { 4 } else { 0 })))
        .chain((1..=8).map(|word| (41, word)))
        .map(|(document, word)| format!("{document} {word} 5\n"))
        .collect();
    fs::write(&data, format!("42\n8\n{}\n{}", entries.len(), entries.concat())).unwrap();
    for (program, options) in [("lda", &["--epochs", "30"][..]), ("lda-svi", &["--epochs", "30", "--minibatch", "8"])] {
        let folder = model.join(program);
        let words = ["--data", text(&data), "--topics", "2", "--top-words", "0", "--output", text(&folder)];
        succeed(program, &[&words[..], options].concat());
        let found = lines("infer", &["--model", text(&folder), "--data", text(&data), "--least", "0.2"]);
        let numbers: Vec<String> = (1..=41).map(|n| n.to_string()).collect();
        assert_eq!(found.iter().map(|line| line[0].clone()).collect::<Vec<_>>(), numbers, "{program}");
        let topic = |line: &[String]| line[1].split(':').next().unwrap().to_owned();
        let (odd, even) = (topic(&found[0]), topic(&found[1]));
        assert_ne!(odd, even);
        for (n, line) in found[..40].iter().enumerate() {
            assert_eq!(topic(line), if n % 2 == 0 { odd.clone() } else { even.clone() }, "{program}: {line:?}");
        }
        assert_eq!(found[40][1].split(' ').count(), 2, "{program}: {:?}", found[40]);
    }
    let other = folder.path().join("other.txt");
    fs::write(&other, "1\n3\n1\n1 1 1\n").unwrap();
    let output = example("infer").args(["--model", text(&model.join("lda")), "--data", text(&other)]).output().unwrap();
    assert!(stderr(&output).contains("both must have the same vocabulary"), "{}", stderr(&output));
}

/// The picture in the README is what the program draws, on any number of threads.
#[test]
fn the_conflict_grid_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.svg");
    succeed("conflict-grid", &["--output", text(&path)]);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conflict-grid.svg");
    assert_eq!(fs::read_to_string(&path).unwrap(), fs::read_to_string(kept).unwrap());
}
