//! Small files that claim much: an error with the line, where room for all of it would be more memory than there is.

use std::fs;

use crate::common::{example, stderr};

#[test]
fn numbers_that_a_file_does_not_bear_out_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bag = |documents: u64, words: u64| format!("{documents}\n{words}\n2\n1 1 3\n2 2 1\n");
    let most = "of 2 entries at most 4194304 were expected";
    let wide = "is too large for a file of 2 values; at most 16777216 was expected";
    let cases = [
        (
            &["lda", "lda_sequential", "lda-svi", "lda-svi_sequential"][..],
            bag(2_000_000_000, 2),
            format!(":1:1: the number of documents is 2000000000; {most}"),
        ),
        (
            &["lda", "lda_sequential", "lda-svi", "lda-svi_sequential"],
            bag(2, 4_000_000_000),
            format!(":2:1: the size of the vocabulary is 4000000000; {most}"),
        ),
        (
            &["svm", "svm_sequential", "lasso", "lasso_sequential", "logistic", "logistic_sequential"],
            "1 1:1\n\n0 2000000000:3\n".to_owned(),
            format!(":3: the index 2000000000 {wide}"),
        ),
    ];
    let path = folder.path().join("small.txt");
    for (programs, text, expected) in cases {
        fs::write(&path, text).unwrap();
        for program in programs {
            let output = example(program).args(["--epochs", "1", "--data"]).arg(&path).output().unwrap();
            let want = format!("error: {}{expected}", path.display());
            assert_eq!((stderr(&output).trim_end(), output.status.code()), (&*want, Some(1)), "{program}");
        }
    }
}
