//! The short programs: what they print is what plain loops over the same data find.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::Path;

use stradsap::prelude::*;

use crate::common::{example, stderr};

/// What a program prints, on this many threads, with every asynchronous loop replayed on one and compared.
fn printed(program: &str, threads: usize) -> String {
    let mut command = example(program);
    let output = command.env("STRADSAP_THREADS", threads.to_string()).env("STRADSAP_VERIFY", "1").output().unwrap();
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers behind `name` in a program's lines.
fn numbers(printed: &str, name: &str) -> Vec<f64> {
    let number = |rest: &str| rest.split([',', ' ']).next().unwrap().parse().unwrap();
    printed.lines().filter_map(|line| Some(number(line.split_once(name)?.1))).collect()
}

fn session() -> Session {
    Session::builder().threads(1).build().unwrap()
}

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(name)
}

/// Ratings as they stand in the file, one after the other.
#[test]
fn biases_are_learnt_as_by_a_plain_loop() {
    const RANK: usize = 8;
    let session = session();
    let rows = session.read_csv::<(u32, u32, f32)>(data("anime-ratings.tsv.gz")).unwrap();
    let (train, test) = rows.split(0.9, 1).unwrap();
    let (train, test) = (train.to_vec().unwrap(), test.to_vec().unwrap());
    let all = || train.iter().chain(&test);
    let [users, items] =
        [all().map(|r| r.0).max().unwrap(), all().map(|r| r.1).max().unwrap()].map(|largest| largest as usize + 1);
    let mean = train.iter().map(|r| f64::from(r.2)).sum::<f64>() / train.len() as f64;
    let noise = session.rng(0);
    let number = |at: usize| f64::from(0.2 * (noise.unit(at as u64) - 0.5));
    let mut rows: Vec<f64> = (0..(users + items) * RANK).map(number).collect();
    let mut biases = vec![0.0; users + items];
    let (rate, pull) = (f64::from(0.01f32), f64::from(0.05f32));
    let root_mean = |squares: f64, count: usize| (squares / count as f64).sqrt();
    let (mut training, mut tested) = (Vec::new(), Vec::new());
    for _epoch in 0..20 {
        let mut squares = 0.0;
        for &(user, item, stars) in &train {
            let (u, i) = (user as usize, users + item as usize);
            let product: f64 = (0..RANK).map(|k| rows[u * RANK + k] * rows[i * RANK + k]).sum();
            let error = f64::from(stars) - (mean + biases[u] + biases[i] + product);
            biases[u] += rate * (error - pull * biases[u]);
            biases[i] += rate * (error - pull * biases[i]);
            for k in 0..RANK {
                let (a, b) = (rows[u * RANK + k], rows[i * RANK + k]);
                rows[u * RANK + k] += rate * (error * b - pull * a);
                rows[i * RANK + k] += rate * (error * a - pull * b);
            }
            squares += error * error;
        }
        training.push(root_mean(squares, train.len()));
        let errors = test.iter().map(|&(user, item, stars)| {
            let (u, i) = (user as usize, users + item as usize);
            let product: f64 = (0..RANK).map(|k| rows[u * RANK + k] * rows[i * RANK + k]).sum();
            f64::from(stars) - (mean + biases[u] + biases[i] + product)
        });
        tested.push(root_mean(errors.map(|error| error * error).sum(), test.len()));
    }
    let own = printed("biases", 2);
    assert_eq!(printed("biases", 1), own);
    // Another order of the ratings: near, not equal.
    for (name, expected) in [("training RMSE ", training), ("test RMSE ", tested)] {
        let found = numbers(&own, name);
        assert_eq!(found.len(), 20);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 0.015, "{name}{found}, a plain loop has {expected}");
        }
    }
    assert!(*numbers(&own, "test RMSE ").last().unwrap() < 1.17, "{own}");
    let best = own.lines().filter(|line| line.starts_with("user 1 may like item ")).count();
    assert_eq!(best, 5, "{own}");
}

/// On one thread the program is the plain loop; on two it ends near it.
#[test]
fn weights_are_learnt_as_by_a_plain_loop() {
    let session = session();
    let train = session.read_libsvm(data("a9a.gz")).unwrap().to_vec().unwrap();
    let test = session.read_libsvm(data("a9a.t.gz")).unwrap().to_vec().unwrap();
    let mut weights = vec![0.0f32; 124];
    let score = |weights: &[f32], person: &Labelled| {
        let known = person.indices.iter().zip(&person.values);
        weights[123] + known.map(|(&f, x)| weights[f as usize] * x).sum::<f32>()
    };
    let mut expected = String::new();
    for epoch in 1..=10 {
        let (rate, mut loss) = (0.1 / epoch as f32, 0.0f64);
        for person in &train {
            let label = person.label as f32;
            let margin = label * score(&weights, person);
            let step = rate * label / (1.0 + margin.exp());
            person.indices.iter().zip(&person.values).for_each(|(&f, x)| weights[f as usize] += step * x);
            weights[123] += step;
            loss += f64::from((-margin).exp().ln_1p());
        }
        expected += &format!("epoch {epoch:2}: mean loss {:.4}\n", loss / train.len() as f64);
    }
    let right = test.iter().filter(|person| (score(&weights, person) > 0.0) == (person.label > 0.0)).count();
    expected += &format!("{right} of {} people are classed right\n", test.len());
    assert_eq!(printed("adult", 1), expected);
    let two = printed("adult", 2);
    assert!(right > 13_800 && (numbers(&two, "mean loss ")[9] - numbers(&expected, "mean loss ")[9]).abs() < 0.002);
}

#[test]
fn labels_and_words_are_counted_as_by_a_plain_loop() {
    let (train, test) = session().read_libsvm(data("reuters.trn.gz")).unwrap().split(0.8, 1).unwrap();
    let (mut texts, mut counts, mut sizes) = (HashMap::new(), HashMap::new(), HashMap::new());
    for text in train.to_vec().unwrap() {
        let label = text.label as i64;
        *texts.entry(label).or_insert(0u64) += 1;
        *sizes.entry(label).or_insert(0u64) += text.indices.len() as u64;
        text.indices.iter().for_each(|&word| *counts.entry((label, word)).or_insert(0u64) += 1);
    }
    let words = 1 + counts.keys().map(|(_, word)| *word).max().unwrap();
    let likeliest = |text: &Labelled| {
        let score = |label: i64| {
            let all = sizes[&label] as f64 + f64::from(words);
            let seen = |word| *counts.get(&(label, word)).unwrap_or(&0) as f64;
            (texts[&label] as f64).ln() + text.indices.iter().map(|&w| ((seen(w) + 1.0) / all).ln()).sum::<f64>()
        };
        if score(1) > score(-1) { 1 } else { -1 }
    };
    let test = test.to_vec().unwrap();
    let right = test.iter().filter(|text| likeliest(text) == text.label as i64).count();
    let own = printed("bayes", 2);
    assert_eq!(printed("bayes", 1), own);
    assert!(own.ends_with(&format!("{right} of {} texts are labelled right\n", test.len())), "{own}; expected {right}");
    for label in [1, -1] {
        let mut of_label: Vec<_> = counts.iter().filter(|((of, _), _)| *of == label).collect();
        of_label.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let line = own.lines().find(|line| line.starts_with(&format!("label {label}: {} texts", texts[&label])));
        let named =
            line.unwrap().split(['[', ']']).nth(1).unwrap().split(", ").map(|word| word.parse::<u32>().unwrap());
        let named: Vec<u64> = named.map(|word| counts[&(label, word)]).collect();
        assert_eq!(named, of_label[..5].iter().map(|(_, count)| **count).collect::<Vec<_>>(), "{own}");
    }
}
