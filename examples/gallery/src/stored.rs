//! Models that programs have stored, as the programs that use them read them.

use std::path::Path;

use stradsap::prelude::*;
use stradsap_examples::{AnyError, Error, Result, files};

/// The place of a name among names.
///
/// # Errors
/// [`stradsap::Error::Usage`] if it isn't there; `what` is what it would be. Those of the operator.
pub fn place_of(names: &DVector<String>, name: &str, what: &str) -> stradsap::Result<usize> {
    let wanted = name.to_owned();
    let found = with!([wanted], names.enumerate().filter(|(_, name)| *name == *wanted)).to_vec()?;
    let place = found.first().map(|(place, _)| *place);
    place.ok_or_else(|| stradsap::Error::usage(format!("the model has no {what} {name:?}")))
}

/// The two labels of a model of classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// For scores above 0.
    pub above: f64,
    /// For all others.
    pub others: f64,
}

impl Pair {
    /// The label of a score.
    pub fn label(self, score: f64) -> f64 {
        if score > 0.0 { self.above } else { self.others }
    }
}

/// A linear model: of classes, as LIBLINEAR stores them, or of values, as `lasso` does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Linear {
    /// A weight a feature.
    pub weights: Vec<f64>,
    /// What is added.
    pub intercept: f64,
    /// The labels, of a model of classes.
    pub classes: Option<Pair>,
}

impl Linear {
    /// Reads a file; of several models in it the last.
    ///
    /// # Errors
    /// [`Error::File`] if it can't be read, [`Error::Line`] for the first line that isn't as it should be.
    pub fn read(path: &Path) -> Result<Linear> {
        let text = std::io::read_to_string(files::open(path)?).map_err(|e| Error::file("read", path, e))?;
        let mut reader = Reader::default();
        for (number, line) in (1..).zip(text.lines()) {
            reader.line(line).map_err(|problem| Error::Line {
                path: path.to_path_buf(),
                line: number,
                column: None,
                problem: problem.to_owned(),
            })?;
        }
        reader.end().map_err(|problem| Error::Data { path: path.to_path_buf(), problem: problem.to_owned() })
    }
}

/// A model, as far as it was read.
#[derive(Default)]
struct Reader {
    linear: Linear,
    features: usize,
    /// LIBLINEAR's: what stands for the intercept's feature, if the model has one.
    bias: f64,
    /// Whether weights follow, one a line.
    weights_follow: bool,
}

type Parsed<T> = std::result::Result<T, &'static str>;

fn number<T: std::str::FromStr>(word: Option<&str>) -> Parsed<T> {
    word.and_then(|word| word.parse().ok()).ok_or("a number was expected")
}

impl Reader {
    fn line(&mut self, line: &str) -> Parsed<()> {
        let mut words = line.split_whitespace();
        let Reader { linear, features, bias, weights_follow } = self;
        match words.next() {
            None => {}
            Some("solver_type" | "nr_class" | "lambda") => {}
            Some("label") => {
                linear.classes = Some(Pair { above: number(words.next())?, others: number(words.next())? });
            }
            Some("intercept") => linear.intercept = number(words.next())?,
            Some("nr_feature") => *features = number(words.next())?,
            Some("bias") => *bias = number(words.next())?,
            Some("w") if linear.classes.is_some() => *weights_follow = true,
            Some("w") => {
                linear.weights = vec![0.0; *features];
                for word in words {
                    let (index, weight) = word.split_once(':').ok_or("index:weight was expected")?;
                    let place = number::<usize>(Some(index))?.checked_sub(1);
                    let place = place.and_then(|place| linear.weights.get_mut(place));
                    *place.ok_or("an index from 1 to nr_feature was expected")? = number(Some(weight))?;
                }
            }
            Some(word) if *weights_follow => linear.weights.push(number(Some(word))?),
            Some(_) => return Err("a model of `svm`, `logistic` or `lasso` was expected"),
        }
        Ok(())
    }

    fn end(mut self) -> Parsed<Linear> {
        if self.linear.classes.is_some() && self.bias >= 0.0 && self.linear.weights.len() == self.features + 1 {
            self.linear.intercept = self.bias * self.linear.weights.pop().unwrap_or(0.0);
        }
        if self.linear.weights.len() == self.features {
            Ok(self.linear)
        } else {
            Err("the file has not as many weights as features")
        }
    }
}

/// The part that each word has of each topic, a row a word: of a model that `lda` or `lda-svi` has stored in a folder.
///
/// # Errors
/// [`stradsap::Error::Usage`] for a model of other words than these; [`stradsap::Error::File`], [`stradsap::Error::Input`].
pub fn topic_parts(
    session: &Session,
    folder: &Path,
    words: usize,
    beta: f64,
) -> std::result::Result<DMatrix<f64>, AnyError> {
    let matrix = folder.join("words.npy");
    let mut weights = if matrix.exists() {
        let rows = session.read_npy_rows::<f32>(&matrix)?;
        DMatrix::from_rows(session, rows.map(|row| row.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>()).to_vec()?)?
    } else {
        let counts = session.read_csv::<(u32, u32, u32)>(folder.join("word-topics.tsv"))?;
        let topics = counts.map(|(_, topic, _)| *topic as usize + 1).reduce(usize::max)?.unwrap_or(1);
        let mut weights = vec![beta; words * topics];
        for (word, topic, count) in counts.iter()? {
            let place = (word as usize).checked_sub(1).filter(|word| *word < words);
            let place = place.ok_or_else(|| other_words(folder, word as usize, words))?;
            weights[place * topics + topic as usize] += f64::from(count);
        }
        DMatrix::from_vec(session, topics, weights)?
    };
    if weights.len() != words {
        return Err(other_words(folder, weights.len(), words).into());
    }
    let mut totals = vec![0.0; weights.width()];
    weights.iter()?.for_each(|row| totals.iter_mut().zip(row).for_each(|(total, weight)| *total += weight));
    let totals = DVector::from_vec(session, totals)?;
    with!([&totals], weights.transform(|row| row.iter_mut().enumerate().for_each(|(k, weight)| *weight /= totals[k])))?;
    Ok(weights)
}

fn other_words(folder: &Path, model: usize, data: usize) -> stradsap::Error {
    let problem = format!("{}: the model has {model} words or more, the data's vocabulary {data}", folder.display());
    stradsap::Error::usage(format!("{problem}; both must have the same vocabulary"))
}
