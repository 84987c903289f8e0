//! Which of some words somebody may have meant.

/// The number of letters to insert, delete, replace or swap to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// The word that is nearest to what was written, whatever its distance.
pub(crate) fn nearest<'w>(written: &str, words: &[&'w str]) -> Option<&'w str> {
    let written = written.to_lowercase();
    words.iter().copied().min_by_key(|word| distance(&written, &word.to_lowercase()))
}

/// A word so near that it is probably a slip of the finger.
pub(crate) fn slip<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let allowed = match written.chars().count() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    words
        .into_iter()
        .map(|word| (distance(written, word), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `a`, `b` and `c`, each in backticks.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("parts", "parts"), 0);
        assert_eq!(distance("part", "parts"), 1);
        assert_eq!(distance("oder", "order"), 1);
        assert_eq!(distance("lable", "label"), 1);
        assert_eq!(distance("", "label"), 5);
    }

    #[test]
    fn the_nearest_word() {
        let options = ["order", "parts", "label", "strategy"];
        assert_eq!(nearest("ordering", &options), Some("order"));
        assert_eq!(nearest("lable", &options), Some("label"));
        assert_eq!(nearest("Stratgy", &options), Some("strategy"));
        assert_eq!(nearest("x", &[]), None);
    }

    #[test]
    fn slips_are_near() {
        assert_eq!(slip("alpah", ["alpha", "lambda"]), Some("alpha"));
        assert_eq!(slip("beta", ["alpha", "lambda"]), None);
        assert_eq!(slip("q", ["p"]), None);
    }

    #[test]
    fn lists() {
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
