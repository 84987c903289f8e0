//! What is made of several sections, as containers of other kinds will be.

use super::session;
use crate::checkpoint::saved::{Saved, elements, sealed};
use crate::checkpoint::{Checkpoints, saved};
use crate::{DVector, Error, Result};

/// Buckets of elements, and a few numbers beside them.
struct Buckets {
    buckets: DVector<Vec<u32>>,
    seed: u64,
}

struct Seed(u64);

impl sealed::Contents for Seed {
    fn encode(&self, _bytes: usize, pieces: &mut dyn sealed::Pieces) -> Result<()> {
        pieces.put(self.0.to_ne_bytes().to_vec())
    }
}

impl Saved for Buckets {}

impl sealed::Saved for Buckets {
    fn kind(&self) -> &'static str {
        "map"
    }

    fn sections(&self) -> Vec<sealed::Section<'_>> {
        let numbers = sealed::Section {
            name: "numbers",
            type_name: "u64",
            element_bytes: Some(8),
            elements: 1,
            version: None,
            contents: Box::new(Seed(self.seed)),
        };
        let of_vector = sealed::Saved::sections(&self.buckets);
        of_vector.into_iter().map(|section| sealed::Section { name: "buckets", ..section }).chain([numbers]).collect()
    }
}

#[test]
fn several_sections_come_back() -> Result<()> {
    let (session, folder) = (session(), tempfile::tempdir().unwrap());
    let contents = vec![vec![1, 2], vec![], vec![3]];
    let mut map = Buckets { buckets: DVector::from_vec(&session, contents.clone())?, seed: 7 };
    let plain = DVector::from_vec(&session, vec![0.5f32])?;
    let mut checkpoints = Checkpoints::new(folder.path(), 1)?;
    checkpoints.save(1, &(), &[("map", &map), ("plain", &plain)])?;
    map.seed = 8;
    checkpoints.save(2, &(), &[("map", &map), ("plain", &plain)])?;
    map.buckets.set(1, vec![9])?;
    checkpoints.save(3, &(), &[("map", &map), ("plain", &plain)])?;

    let checkpoint = checkpoints.resume()?.unwrap();
    assert_eq!(elements::<Vec<u32>>(&checkpoint, "map", "map", "buckets")?, [vec![1, 2], vec![9], vec![3]]);
    assert_eq!(elements::<u64>(&checkpoint, "map", "map", "numbers")?, [8]);
    let before = crate::Checkpoint::open(folder.path().join("step-000000000002.checkpoint"))?;
    assert_eq!(elements::<Vec<u32>>(&before, "map", "map", "buckets")?, contents);

    // A vector is not taken for one of another kind.
    let error = saved::load::<u64>(&checkpoint, &session, "map").unwrap_err().to_string();
    assert!(error.ends_with("it holds no vector `map`; it holds `plain`; `map` is a map"), "{error}");
    let error = elements::<u64>(&checkpoint, "plain", "map", "numbers").unwrap_err();
    assert!(matches!(error, Error::File { .. }) && error.to_string().contains("it holds no map `plain`"), "{error}");
    Ok(())
}
