//! The variables that a format string names, as in `"{loss:.3} of {total:width$}"`.

/// The names in a format string, in order, each once.
pub(crate) fn inline_names(format: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = format;
    while let Some(start) = rest.find('{') {
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            rest = after;
            continue;
        }
        let Some(end) = rest.find('}') else { break };
        for name in names_of(&rest[..end]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    names
}

/// The names within one pair of braces: the argument's, the width's and the precision's.
fn names_of(placeholder: &str) -> Vec<String> {
    let (argument, spec) = placeholder.split_once(':').unwrap_or((placeholder, ""));
    let mut names = Vec::new();
    if is_name(argument.trim()) {
        names.push(argument.trim().to_string());
    }
    // A fill character stands before the alignment and may be anything.
    let mut letters = spec.char_indices();
    let (first, second) = (letters.next(), letters.next());
    let spec = match (first, second) {
        (Some(_), Some((at, '<' | '^' | '>'))) => &spec[at + 1..],
        _ => spec,
    };
    for before_dollar in spec.split('$').rev().skip(1) {
        let start = before_dollar.rfind(|c: char| !(c.is_alphanumeric() || c == '_'));
        let name = before_dollar[start.map_or(0, |at| at + 1)..].trim_start_matches(|c: char| c.is_ascii_digit());
        if is_name(name) {
            names.push(name.to_string());
        }
    }
    names
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::inline_names;

    #[test]
    fn arguments_by_name() {
        assert_eq!(inline_names("{beta}"), ["beta"]);
        assert_eq!(inline_names("{beta:?} {gamma:>8.3} {beta}"), ["beta", "gamma"]);
        assert_eq!(inline_names("{ beta }"), ["beta"]);
    }

    #[test]
    fn widths_and_precisions() {
        assert_eq!(inline_names("{x:w$.p$}"), ["x", "p", "w"]);
        assert_eq!(inline_names("{:w$}"), ["w"]);
        assert_eq!(inline_names("{:$>w$}"), ["w"]);
        assert_eq!(inline_names("{:0w$}"), ["w"]);
        assert_eq!(inline_names("{:1$} {:.*}"), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_name() {
        assert_eq!(inline_names("{{beta}} {} {0} {:?} {0:>5}"), Vec::<String>::new());
        assert_eq!(inline_names("{{{beta}}}"), ["beta"]);
        assert_eq!(inline_names("{beta"), Vec::<String>::new());
    }
}
