//! Questions of the kind "a is to b as c is to what?": the Google analogies.

use std::path::Path;

use serde::Serialize;
use stradsap_examples::{Error, Result};

use super::Vectors;
use super::pairs::lines;
use super::search::{Query, Table};

/// A file of questions.
#[derive(Debug)]
pub struct Analogies {
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    name: String,
    /// a, b, c and the answer, in upper case.
    questions: Vec<[String; 4]>,
}

/// How many questions were answered rightly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionScore {
    /// The section's name.
    pub section: String,
    /// Right answers.
    pub correct: usize,
    /// Questions whose words are all known.
    pub total: usize,
}

/// The scores of all sections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnalogyScore {
    /// In the order of the file.
    pub sections: Vec<SectionScore>,
    /// Right answers.
    pub correct: usize,
    /// Questions whose words are all known.
    pub total: usize,
    /// Questions left out, since a word of theirs isn't known.
    pub skipped: usize,
    /// `correct` over `total`; `None` without questions.
    pub accuracy: Option<f64>,
}

impl Analogies {
    /// Reads lines of four words, and a line `: name` before those of each section. Blank lines are skipped.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Line`] with the line that isn't a question.
    pub fn read(path: &Path) -> Result<Analogies> {
        let mut sections: Vec<Section> = Vec::new();
        for (line, text) in lines(path)? {
            let bad = |problem: String| Error::Line { path: path.to_path_buf(), line, column: None, problem };
            if let Some(name) = text.strip_prefix(':') {
                sections.push(Section { name: name.trim().to_owned(), questions: Vec::new() });
                continue;
            }
            let words: Vec<_> = text.split_whitespace().map(str::to_uppercase).collect();
            if words.is_empty() {
                continue;
            }
            let question = <[String; 4]>::try_from(words)
                .map_err(|words| bad(format!("{} words; expected 4: a is to b as c is to d", words.len())))?;
            let section = sections.last_mut().ok_or_else(|| bad("expected a line \": section\" first".to_owned()))?;
            section.questions.push(question);
        }
        Ok(Analogies { sections })
    }

    /// Answers the questions among the first `restrict` words, by 3CosAdd: the answer is the word whose vector has the
    /// largest cosine with b + c - a, all of length 1, the words of the question aside. Upper and lower case are the same.
    pub fn score(&self, vectors: &Vectors, restrict: usize, threads: usize) -> AnalogyScore {
        let restrict = restrict.min(vectors.words().len());
        let numbers = vectors.by_upper_case(restrict);
        // Words that differ in case alone are one word: the first of them stands for all.
        let same: Vec<usize> = vectors.words()[..restrict].iter().map(|word| numbers[&word.to_uppercase()]).collect();
        let mut queries = Vec::new();
        let mut asked = Vec::new();
        for (number, section) in self.sections.iter().enumerate() {
            for question in &section.questions {
                let words = question.each_ref().map(|word| numbers.get(word).copied());
                if let [Some(a), Some(b), Some(c), Some(expected)] = words {
                    asked.push((number, expected));
                    queries.push(Query { towards: [b, c], away: a });
                }
            }
        }
        let table = Table::new(vectors, restrict);
        let answers = table.nearest(&queries, &same, threads);
        let empty = |section: &Section| SectionScore { section: section.name.clone(), correct: 0, total: 0 };
        let mut sections: Vec<SectionScore> = self.sections.iter().map(empty).collect();
        for ((section, expected), answer) in asked.into_iter().zip(answers) {
            sections[section].total += 1;
            sections[section].correct += usize::from(answer.is_some_and(|answer| same[answer] == expected));
        }
        let questions: usize = self.sections.iter().map(|section| section.questions.len()).sum();
        let (correct, total) = sections.iter().fold((0, 0), |(c, t), score| (c + score.correct, t + score.total));
        let accuracy = (total > 0).then(|| correct as f64 / total as f64);
        AnalogyScore { sections, correct, total, skipped: questions - total, accuracy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors() -> Vectors {
        let rows: [(&str, [f32; 3]); 7] = [
            ("man", [2.0, 0.0, 0.1]),
            ("woman", [0.0, 3.0, 0.1]),
            ("king", [1.0, 0.0, 1.0]),
            ("queen", [0.0, 1.0, 1.1]),
            ("QUEEN", [0.0, 2.0, 2.0]),
            ("car", [-1.0, -1.0, 0.5]),
            ("King", [0.0, 1.0, 1.0]),
        ];
        let words = rows.iter().map(|(word, _)| Box::from(*word)).collect();
        Vectors { words, size: 3, values: rows.iter().flat_map(|(_, row)| *row).collect() }
    }

    fn analogies(text: &str) -> Result<Analogies> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("questions.txt");
        std::fs::write(&path, text).unwrap();
        Analogies::read(&path)
    }

    #[test]
    fn questions_are_answered_without_regard_to_case() {
        // The nearest to woman + king - man are "QUEEN", "King" and "queen". "King" is a word of the question, "QUEEN" is
        // the answer in other letters.
        let text = ": family\nMan Woman King Queen\nman woman king car\n: other\n\nman woman unicorn queen\n: none\n";
        let score = analogies(text).unwrap().score(&vectors(), 300_000, 2);
        let section = |name: &str, correct, total| SectionScore { section: name.into(), correct, total };
        assert_eq!(score.sections, [section("family", 1, 2), section("other", 0, 0), section("none", 0, 0)]);
        assert_eq!((score.correct, score.total, score.skipped, score.accuracy), (1, 2, 1, Some(0.5)));
    }

    #[test]
    fn only_the_first_words_are_known() {
        let analogies = analogies(": s\nman woman king queen\n").unwrap();
        assert_eq!(analogies.score(&vectors(), 4, 1).correct, 1);
        let three = analogies.score(&vectors(), 3, 1);
        assert_eq!((three.total, three.skipped, three.accuracy), (0, 1, None));
    }

    #[test]
    fn a_line_that_is_no_question_is_named() {
        let error = |text: &str| analogies(text).unwrap_err().to_string();
        assert!(
            error(": s\na b c d\na b c\n").ends_with("questions.txt:3: 3 words; expected 4: a is to b as c is to d")
        );
        assert!(error("a b c d\n").ends_with("questions.txt:1: expected a line \": section\" first"));
    }
}
