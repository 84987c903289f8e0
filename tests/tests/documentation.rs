//! The documentation names what exists: every relative link, every heading that a link names, every path.
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Kinds of files whose bare names in backticks are files of the repository, not files that a program reads or writes.
const OWN_KINDS: [&str; 6] = ["md", "rs", "sbatch", "sh", "toml", "yaml"];

/// A name in a document that leads nowhere.
#[derive(Debug, PartialEq)]
struct Broken {
    document: String,
    line: usize,
    target: String,
}

impl Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: `{}` doesn't exist", self.document, self.line, self.target)
    }
}

/// All files and folders of the repository, relative to its root, without what is built.
struct Repository {
    root: PathBuf,
    entries: BTreeSet<PathBuf>,
}

impl Repository {
    fn here() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf();
        let mut entries = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                if [".git", "target"].iter().any(|skipped| entry.file_name() == *skipped) {
                    continue;
                }
                entries.insert(entry.path().strip_prefix(&root).unwrap().to_path_buf());
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Repository { root, entries }
    }

    fn documents(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().map(PathBuf::as_path).filter(|path| path.extension().is_some_and(|kind| kind == "md"))
    }

    fn read(&self, path: &Path) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// `path` as a document in `folder` means it, if that exists.
    fn resolve(&self, folder: &Path, path: &str) -> Option<PathBuf> {
        let mut resolved = PathBuf::new();
        for component in folder.join(path).components() {
            match component {
                Component::Normal(name) => resolved.push(name),
                Component::ParentDir if !resolved.pop() => return None,
                Component::RootDir | Component::Prefix(_) => return None,
                Component::ParentDir | Component::CurDir => (),
            }
        }
        (resolved == Path::new("") || self.entries.contains(&resolved)).then_some(resolved)
    }

    /// Words of the Rust sources that a keyword defines, and all others.
    fn names(&self) -> [BTreeSet<String>; 2] {
        let mut names = [BTreeSet::new(), BTreeSet::new()];
        for path in self.entries.iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
            let (text, mut defines) = (self.read(path), false);
            for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()) {
                names[usize::from(!defines)].insert(word.to_string());
                defines = ["const", "enum", "fn", "mod", "struct", "trait", "type"].contains(&word);
            }
        }
        names
    }

    fn has_top_level(&self, name: &str) -> bool {
        !name.is_empty() && self.entries.contains(Path::new(name))
    }

    /// Whether the name of an entry ends with `path`: `plan/cut.rs` for `runtime/src/plan/cut.rs`.
    fn has_suffix(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| entry.ends_with(path))
    }

    /// What the text of `document` names that doesn't exist.
    fn broken(&self, document: &Path, text: &str) -> Vec<Broken> {
        let folder = document.parent().unwrap();
        let mut broken = Vec::new();
        for (line, prose, code) in lines(text) {
            let mut missing: BTreeSet<&str> = BTreeSet::new();
            missing.extend(links(prose).filter(|target| !self.leads_somewhere(document, text, target)));
            missing.extend(words(prose).filter(|word| !self.is_path(folder, word)));
            if !code {
                missing.extend(spans(prose).filter(|span| !self.is_own_file(folder, span)));
            }
            let document = document.display().to_string();
            broken.extend(missing.into_iter().map(|target| Broken {
                document: document.clone(),
                line,
                target: target.to_string(),
            }));
        }
        broken
    }

    fn leads_somewhere(&self, document: &Path, text: &str, target: &str) -> bool {
        if target.contains("://") || target.starts_with("mailto:") {
            return true;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        if path.is_empty() {
            return anchors(text).contains(anchor);
        }
        let Some(found) = self.resolve(document.parent().unwrap(), path) else { return false };
        anchor.is_empty() || (self.root.join(&found).is_file() && anchors(&self.read(&found)).contains(anchor))
    }

    /// Whether `word` exists if it begins with a folder of the repository's root; other words are no paths.
    fn is_path(&self, folder: &Path, word: &str) -> bool {
        match word.split_once('/') {
            Some((first, rest)) if self.has_top_level(first) && !rest.is_empty() => {
                self.resolve(Path::new(""), word).or_else(|| self.resolve(folder, word)).is_some()
            }
            _ => true,
        }
    }

    /// Whether `span` exists if it looks like a source file or a folder: `cut.rs`, `plan/`, `plan/cut.rs`.
    fn is_own_file(&self, folder: &Path, span: &str) -> bool {
        let kind = Path::new(span).extension().and_then(|kind| kind.to_str());
        let named = kind.is_some_and(|kind| OWN_KINDS.contains(&kind)) || span.ends_with('/');
        let plain = span.len() > 1 && span.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
        !(named && plain && !span.starts_with('/')) || self.resolve(folder, span).is_some() || self.has_suffix(span)
    }
}

/// Numbered lines, and whether each stands in a fenced block of code.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut code = false;
    text.lines().enumerate().map(move |(n, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (n + 1, line, code || fence)
    })
}

/// What keeps a block of Rust from running in a package that depends on `stradsap` and on `serde`: (line, what). Blocks are compiled
/// elsewhere, as documentation tests, which may use more than that.
fn uncopied(text: &str, whole_programs: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // The line where the running block began, if one runs; whether it is Rust, and has a `main` if it needs one.
    let (mut start, mut rust, mut has_main) = (None, false, true);
    for (n, line, _) in lines(text) {
        let line = line.trim_start();
        if let Some(kind) = line.strip_prefix("```") {
            start = match start {
                Some(start) => {
                    if rust && !has_main {
                        found.push((start, "no `fn main`".to_owned()));
                    }
                    rust = false;
                    None
                }
                None => {
                    rust = kind == "rust" || (!whole_programs && kind.is_empty());
                    has_main = !whole_programs;
                    Some(n)
                }
            };
            continue;
        }
        if !rust || line.starts_with("# ") {
            continue;
        }
        has_main |= line.starts_with("fn main(");
        let used = line.strip_prefix("use ").map(|path| path.split([':', ' ', ';']).next().unwrap_or_default());
        let foreign = used.is_some_and(|name| !["stradsap", "std", "serde", "self", "super", "crate"].contains(&name));
        if foreign || line.contains("stradsap_runtime") || line.contains("tempfile::") {
            found.push((n, line.to_owned()));
        }
    }
    found
}

/// Targets of links: `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Runs of characters that paths have, without the full stop that ends a sentence, or a line's number.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || "_-./*$<>{}~".contains(c)))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.contains(['*', '$', '<', '>', '{', '}', '~']))
}

/// What stands in backticks.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Names by which links reach the headings of a text, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let headings = lines(text).filter(|(_, line, code)| !code && line.starts_with('#'));
    for heading in headings.map(|(_, line, _)| line.trim_start_matches('#').trim().to_lowercase()) {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

#[test]
fn every_link_and_path_in_the_documentation_exists() {
    let repository = Repository::here();
    let documents: Vec<_> = repository.documents().collect();
    assert!(documents.contains(&Path::new("README.md")) && documents.contains(&Path::new("docs/README.md")));
    let broken: Vec<_> = documents
        .iter()
        .flat_map(|path| repository.broken(path, &repository.read(path)))
        .map(|b| b.to_string())
        .collect();
    assert!(broken.is_empty(), "{} names lead nowhere:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let repository = Repository::here();
    let summary = repository.read(Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<&str> = summary.lines().flat_map(links).collect();
    listed.sort_unstable();
    let pages = repository.documents().filter(|path| path.parent() == Some(Path::new("docs")));
    let mut pages: Vec<&str> = pages.filter_map(|path| path.file_name()?.to_str()).collect();
    pages.retain(|page| *page != "SUMMARY.md");
    pages.sort_unstable();
    assert_eq!(listed, pages);
    // A program that `stradsap/src/lib.rs` doesn't name isn't tested.
    let tested = repository.read(Path::new("stradsap/src/lib.rs"));
    for page in pages.iter().filter(|page| repository.read(&Path::new("docs").join(page)).contains("```rust")) {
        assert!(tested.contains(&format!("../../docs/{page}")), "the programs of docs/{page} are not tested");
    }
}

#[test]
fn programs_in_the_documentation_can_be_copied() {
    let repository = Repository::here();
    let guides = repository.documents().filter(|path| *path == Path::new("README.md") || path.starts_with("docs"));
    let in_guides = guides.flat_map(|path| {
        uncopied(&repository.read(path), true)
            .into_iter()
            .map(move |(n, what)| format!("{}:{n}: {what}", path.display()))
    });
    let sources = repository.entries.iter().filter(|path| {
        let public = ["stradsap/src", "runtime/src"].iter().any(|folder| path.starts_with(folder));
        public && path.extension().is_some_and(|kind| kind == "rs")
    });
    let in_sources = sources.flat_map(|path| {
        // Lines keep their numbers; what isn't documentation is empty.
        let text = repository.read(path);
        let comment = |line: &str| {
            let line = line.trim_start();
            let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            text.map_or_else(String::new, |text| text.strip_prefix(' ').unwrap_or(text).to_owned())
        };
        let comments: Vec<String> = text.lines().map(comment).collect();
        let found = uncopied(&comments.join("\n"), false);
        found.into_iter().map(move |(n, what)| format!("{}:{n}: {what}", path.display()))
    });
    let found: Vec<String> = in_guides.chain(in_sources).collect();
    assert!(found.is_empty(), "{} blocks can't be copied:\n{}", found.len(), found.join("\n"));

    let text = "```rust\nuse tempfile::tempdir;\nfn f() {}\n```\n```text\nuse it\n```\n```rust\nuse std::fs;\nfn main() {}\n```";
    assert_eq!(uncopied(text, true), [(2, "use tempfile::tempdir;".to_owned()), (1, "no `fn main`".to_owned())]);
    let text = "```\n# use stradsap_runtime as stradsap;\nuse stradsap::DVector;\nstradsap_runtime::f();\n```\n```\nlet x = 1;\n```";
    assert_eq!(uncopied(text, false), [(4, "stradsap_runtime::f();".to_owned())]);
}

/// Paths of identifiers in the last column of a table, `Type` or `Type::member`, that the Rust sources don't have.
fn unknown<'t>(text: &'t str, [defined, others]: &[BTreeSet<String>; 2]) -> Vec<(usize, &'t str)> {
    let rows = lines(text).filter(|(_, line, code)| !code && line.ends_with(" |"));
    let cells = rows.filter_map(|(n, line, _)| Some((n, line.rsplit(" | ").next()?)));
    let named = cells.flat_map(|(n, cell)| spans(cell).map(move |span| (n, span)));
    let is_path = |span: &str| span.chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
    let is_known = |span: &str| {
        let mut names = span.split("::");
        names.next().is_some_and(|name| defined.contains(name))
            && names.all(|name| defined.contains(name) || others.contains(name))
    };
    named.filter(|(_, span)| is_path(span) && !is_known(span)).collect()
}

#[test]
fn what_the_glossary_says_stands_for_a_term_is_in_the_code() {
    let repository = Repository::here();
    let text = repository.read(Path::new("docs/glossary.md"));
    let missing = unknown(&text, &repository.names());
    assert!(missing.is_empty(), "docs/glossary.md names what no Rust source defines (line, name): {missing:?}");

    let names = [["Plan", "run"], ["blocks", "plan"]].map(|names| names.map(String::from).into_iter().collect());
    let row =
        "| plan | Not `Here`. | ours | `Plan`, `Plan::blocks`, `Plan::gone`, `plan`, `Gone`, `x = 1` |\nNor `There`.";
    assert_eq!(unknown(row, &names), [(1, "Plan::gone"), (1, "plan"), (1, "Gone")]);
}

#[test]
fn what_is_broken_is_found_with_its_line() {
    let text = "# A page\n\
        See [the tutorial](tutorial.md), [reductions](tutorial.md#reductions), [here](#a-page), [away](https://example.org/a.md).\n\
        [gone](gone.md) and [a heading](tutorial.md#no-such-heading), [none](#b-page); [outside](../../etc/passwd)\n\
        `examples/sgdmf.rs` and `examples/no_such_example.rs`, docs/missing.md, either/or, `p.npy`, `http://tests/x`.\n\
        `sgdmf.rs`, `no_such_module.rs`, `tests/tests/`, `nowhere/`, `/`, `tests/tests/*.rs`\n\
        ```sh\n\
        sbatch deploy/slurm.sbatch && sh deploy/no_such.sh  # at examples/sgdmf.rs:95.\n\
        ```\n";
    let found: Vec<_> =
        Repository::here().broken(Path::new("docs/page.md"), text).into_iter().map(|b| (b.line, b.target)).collect();
    let expected = [
        (3, "#b-page"),
        (3, "../../etc/passwd"),
        (3, "gone.md"),
        (3, "tutorial.md#no-such-heading"),
        (4, "docs/missing.md"),
        (4, "examples/no_such_example.rs"),
        (5, "no_such_module.rs"),
        (5, "nowhere/"),
        (7, "deploy/no_such.sh"),
    ];
    assert_eq!(found, expected.map(|(line, target)| (line, target.to_string())));
    let broken = Broken { document: "docs/page.md".into(), line: 3, target: "gone.md".into() };
    assert_eq!(broken.to_string(), "docs/page.md:3: `gone.md` doesn't exist");
}

#[test]
fn headings_are_reached_by_the_names_that_links_use() {
    let text = "# The `cut`: how fine?\n## Again\n```\n# a comment\n```\n## Again\n### Hosts, by hand\n";
    let expected = ["again", "again-1", "hosts-by-hand", "the-cut-how-fine"];
    assert_eq!(anchors(text), expected.map(String::from).into_iter().collect());
}
