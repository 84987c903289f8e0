//! The engine's modules stand on floors, and no module names one of a floor below its own (docs/architecture.md).

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the top down: each floor may use itself and those above it.
const FLOORS: &[&[&str]] = &[
    &["planner"],
    &["memory", "kernels", "files"],
    &["session"],
    &["body"],
    &["dds"],
    &["loops"],
    &["minibatch"],
    &["scheduled"],
    &["operate"],
    &["backend"],
    &["local"],
    &["cluster", "launch"],
];

/// The floor of a module of the crate's root.
fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// The same text, with blanks in place of comments, literals, and modules of tests.
fn code_of(text: &str) -> String {
    let mut code = blank_literals(text);
    while let Some(start) = code.find("#[cfg(test)]") {
        let rest = &code[start..];
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(open), semicolon) if semicolon.is_none_or(|semicolon| open < semicolon) => {
                let mut depth = 0;
                rest.char_indices()
                    .find(|&(at, c)| {
                        depth += i32::from(c == '{') - i32::from(c == '}');
                        at >= open && depth == 0
                    })
                    .map_or(rest.len(), |(at, _)| at + 1)
            }
            (_, Some(semicolon)) => semicolon + 1,
            _ => rest.len(),
        };
        let blank: String = rest[..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
        code.replace_range(start..start + end, &blank);
    }
    code
}

fn blank_literals(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_blank(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { c } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that begins here ends; here if none does.
fn end_of_blank(chars: &[char], at: usize) -> usize {
    let here = |text: &str, at: usize| text.chars().enumerate().all(|(k, c)| chars.get(at + k) == Some(&c));
    let after =
        |text: &str, from: usize| (from..chars.len()).find(|&k| here(text, k)).map(|k| k + text.chars().count());
    if here("//", at) {
        return after("\n", at).unwrap_or(chars.len());
    }
    if here("/*", at) {
        return after("*/", at + 2).unwrap_or(chars.len());
    }
    let in_a_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if chars[at] == 'r' && !in_a_word {
        let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
        if chars.get(at + 1 + hashes) == Some(&'"') {
            let end = format!("\"{}", "#".repeat(hashes));
            return after(&end, at + 2 + hashes).unwrap_or(chars.len());
        }
    }
    let quote = chars[at];
    // A lifetime has no quote behind its first letter.
    let literal = quote == '"' || (quote == '\'' && (here("\\", at + 1) || chars.get(at + 2) == Some(&'\'')));
    if !literal {
        return at;
    }
    let mut k = at + 1;
    while k < chars.len() && chars[k] != quote {
        k += if chars[k] == '\\' { 2 } else { 1 };
    }
    (k + 1).min(chars.len())
}

fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The first names of paths from the crate's root, each with where it stands. `depth` says how many modules the file is
/// below the root.
fn named(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let up = "super::".repeat(depth);
    let roots = ["crate::", up.as_str()];
    for root in roots.into_iter().filter(|root| !root.is_empty()) {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let start = at + root.len();
            let rest = &code[start..];
            if !rest.starts_with('{') {
                names.push((start, word(rest)));
                continue;
            }
            // A group: its own names follow its brace or a comma that is in no inner group.
            let (mut inner, mut first) = (0, false);
            for (k, c) in rest.char_indices() {
                match c {
                    '{' => inner += 1,
                    '}' => inner -= 1,
                    c if first && !c.is_whitespace() => names.push((start + k, word(&rest[k..]))),
                    _ => {}
                }
                if inner == 0 {
                    break;
                }
                first = inner == 1 && (c == '{' || c == ',' || (first && c.is_whitespace()));
            }
        }
    }
    names
}

/// The modules of what the root gives to programs under a shorter name.
fn given(root: &str) -> BTreeMap<String, String> {
    let code = code_of(root);
    let mut given = BTreeMap::new();
    for part in code.split("pub use ").skip(1) {
        let part = part.split(';').next().unwrap_or_default();
        let module = word(part.trim_start_matches("crate::"));
        for name in part.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| *name != "crate") {
            given.insert(name.to_string(), module.to_string());
        }
    }
    given
}

/// What is named from below: a line for each.
fn faults(files: &[(PathBuf, String)]) -> Vec<String> {
    let root = files.iter().find(|(path, _)| path == Path::new("lib.rs")).map_or("", |(_, text)| text);
    let given = given(root);
    let mut faults = Vec::new();
    for (path, text) in files {
        let stem = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_string();
        let parts: Vec<String> = path.iter().map(|part| stem(Path::new(part))).collect();
        let of_tests = parts.last().is_some_and(|name| name == "tests" || name.ends_with("_tests"));
        if path == Path::new("lib.rs") || of_tests {
            continue;
        }
        let depth = parts.len() - usize::from(parts.last().is_some_and(|name| name == "mod"));
        let Some(own) = parts.first().and_then(|module| floor(module)) else {
            faults.push(format!("{}: `{}` stands on no floor", path.display(), parts[0]));
            continue;
        };
        let code = code_of(text);
        for (at, name) in named(&code, depth) {
            let module = if floor(name).is_some() { name } else { given.get(name).map_or(name, String::as_str) };
            if floor(module).is_some_and(|floor| floor > own) {
                let line = code[..at].matches('\n').count() + 1;
                let (path, above) = (path.display(), FLOORS[own].join(", "));
                faults.push(format!("{path}:{line}: the floor of {above} stands above that of `{module}` (`{name}`)"));
            }
        }
    }
    faults
}

fn read(folder: &Path, root: &Path, files: &mut Vec<(PathBuf, String)>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, root, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            files.push((name, fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

#[test]
fn nobody_names_a_floor_below_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    read(&root, &root, &mut files).unwrap();
    assert!(files.len() > 100, "the sources are elsewhere: {} files at {}", files.len(), root.display());
    let faults = faults(&files);
    assert!(faults.is_empty(), "{} imports from below:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_made_up_tree_has_the_faults_that_were_put_into_it() {
    let tree = [
        ("lib.rs", "mod dds; pub use dds::vector::{Vector, Map}; pub use memory::Buffer; use crate::cluster::x;"),
        (
            "memory/mod.rs",
            "// crate::loops::x\nuse crate::memory::y;\nconst S: &str = \"crate::dds::x\";\nfn f<'a>() {}",
        ),
        ("memory/low.rs", "use crate::{memory::{self, low}, dds::vector};\nuse crate::Vector;\nuse crate::Buffer;"),
        ("session/mod.rs", "use crate::memory::x;\nfn f() { crate::cluster::driver::go('\\'', r#\"crate::dds\"#); }"),
        ("loops/call/deep.rs", "use super::super::super::dds::x;\nuse super::super::super::operate::x;\nuse super::y;"),
        (
            "dds/vector.rs",
            "use crate::body::x;\n#[cfg(test)]\nmod tests { fn f() { crate::local::x(); } }\nuse crate::local::y;",
        ),
        ("dds/vector_tests.rs", "use crate::cluster::x;"),
        ("attic/mod.rs", ""),
    ];
    let files: Vec<_> = tree.iter().map(|&(path, text)| (PathBuf::from(path), text.to_string())).collect();
    assert_eq!(
        faults(&files),
        [
            "memory/low.rs:1: the floor of memory, kernels, files stands above that of `dds` (`dds`)",
            "memory/low.rs:2: the floor of memory, kernels, files stands above that of `dds` (`Vector`)",
            "session/mod.rs:2: the floor of session stands above that of `cluster` (`cluster`)",
            "loops/call/deep.rs:2: the floor of loops stands above that of `operate` (`operate`)",
            "dds/vector.rs:4: the floor of dds stands above that of `local` (`local`)",
            "attic/mod.rs: `attic` stands on no floor",
        ]
    );
}
