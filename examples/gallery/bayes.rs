//! Counts of labels and words in maps, and what they are good for: naive Bayes. `cargo run --release --example bayes` counts the words of
//! the repository's Reuters texts; another file in LIBSVM's format, a text a line with its words as features, may be named
//! on the command line.

#![allow(clippy::print_stdout, reason = "what the program finds")]

use stradsap::prelude::*;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/reuters.trn.gz");

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| DATA.to_owned());
    let (train, test) = session.read_libsvm(path)?.split(0.8, 1)?;

    // A number of type f64 can't be a key of a map; labels are whole numbers.
    let labels: DMap<i64, u64> = train.count_by_key(|text| text.label as i64)?;
    let mut counts: DMap<(i64, u32), u64> = DMap::new(session)?; // texts of a label that have a word
    let mut sizes: DMap<i64, u64> = DMap::new(session)?; // all of these, by label
    async_parallel_for!(0..train.len(), [&train, sum counts, sum sizes], |n| {
        let text = &train[n];
        let label = text.label as i64;
        for &word in &text.indices {
            *counts.entry((label, word)).or_insert(0) += 1;
        }
        *sizes.entry(label).or_insert(0) += text.indices.len() as u64;
    })?;
    let words = counts.map(|((_, word), _)| word + 1).reduce(u32::max)?.unwrap_or(0);

    // The label that makes the words of a text most probable; a word that was never seen counts as seen once.
    let likeliest = with!(
        [words, &labels, &counts, &sizes],
        test.map(|text| {
            let score = |label: i64, texts: u64| {
                let seen = |word| counts.get(&(label, word)).copied().unwrap_or(0) as f64;
                let all = sizes[&label] as f64 + f64::from(words);
                (texts as f64).ln() + text.indices.iter().map(|&word| ((seen(word) + 1.0) / all).ln()).sum::<f64>()
            };
            let best = labels.iter().max_by(|(a, n), (b, m)| score(**a, **n).total_cmp(&score(**b, **m)));
            (text.label as i64, best.map_or(0, |(label, _)| *label))
        })
    );
    let right = likeliest.filter(|(label, found)| label == found).count()?;
    for (label, texts) in labels.to_vec()? {
        let own = with!([label], counts.filter(|((of, _), _)| *of == label));
        let most: Vec<u32> = own.top_k(5, |(_, count)| *count)?.iter().map(|((_, word), _)| *word).collect();
        println!("label {label}: {texts} texts, most of all with the words {most:?}");
    }
    println!("{right} of {} texts are labelled right", test.len());
    Ok(())
}
