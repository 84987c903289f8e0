//! Names of what every process of a job has, since all run the same executable: how far into its image they lie.
//!
//! # Why this is sound
//! A name leads to a constant of the kind that is asked for, or to nothing (see `memory::named`). A maker is a function of the type
//! that belongs to what it makes.
#![allow(unsafe_code)]

use serde::{Deserialize, Serialize};

use crate::body::task::MakeTask;
use crate::memory::element_ops::{ElementOps, row_ops};
use crate::memory::named::{Maker, Makes};
pub(crate) use crate::memory::named::{name, named};
use crate::minibatch::MakeBatchTask;
use crate::operate::stage::MakeStage;
use crate::scheduled::remote::MakeProgram;

/// The function with this name, where it makes that.
fn function(name: u64, makes: Makes) -> Option<*const ()> {
    named::<Maker>(name)?.function(makes)
}

pub(crate) fn task_maker(name: u64) -> Option<MakeTask> {
    // SAFETY: `Makes::Loop` stands for functions of this type.
    function(name, Makes::Loop).map(|function| unsafe { std::mem::transmute::<*const (), MakeTask>(function) })
}

pub(crate) fn batch_task_maker(name: u64) -> Option<MakeBatchTask> {
    // SAFETY: `Makes::BatchLoop` stands for functions of this type.
    function(name, Makes::BatchLoop)
        .map(|function| unsafe { std::mem::transmute::<*const (), MakeBatchTask>(function) })
}

pub(crate) fn stage_maker(name: u64) -> Option<MakeStage> {
    // SAFETY: `Makes::Stage` stands for functions of this type.
    function(name, Makes::Stage).map(|function| unsafe { std::mem::transmute::<*const (), MakeStage>(function) })
}

pub(crate) fn program_maker(name: u64) -> Option<MakeProgram> {
    // SAFETY: `Makes::Program` stands for functions of this type.
    function(name, Makes::Program).map(|function| unsafe { std::mem::transmute::<*const (), MakeProgram>(function) })
}

/// Names the operations of elements; those of rows have no place in the executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ElementName {
    /// Of a row's numbers.
    of: u64,
    width: usize,
}

pub(crate) fn element_name(ops: &'static ElementOps) -> Option<ElementName> {
    Some(ElementName { of: name(ops.of_one())?, width: ops.width() })
}

pub(crate) fn element_ops(name: ElementName) -> Option<&'static ElementOps> {
    row_ops(named(name.of)?, name.width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::additive::{TallyOps, tally_ops_of};
    use crate::memory::element_ops::ops_of;
    use crate::memory::image::{address_of, name_of};

    #[test]
    fn constants_of_the_program_have_names() {
        let ops = ops_of::<[f32; 8]>();
        let name = element_name(ops).unwrap();
        let again = element_ops(name).unwrap();
        assert!(std::ptr::eq(ops, again) && again.size == 32);
        // It is no code, and of no other kind.
        assert!(task_maker(name.of).is_none() && named::<TallyOps>(name.of).is_none());
        let tallies = tally_ops_of::<f32>();
        let name = super::name(tallies).unwrap();
        assert!(std::ptr::eq(tallies, named::<TallyOps>(name).unwrap()));
        assert!(element_ops(ElementName { of: name, width: 1 }).is_none());
    }

    #[test]
    fn rows_are_named_by_their_numbers_and_their_width() {
        let rows = row_ops(ops_of::<f64>(), 1000).unwrap();
        let again = element_ops(element_name(rows).unwrap()).unwrap();
        assert!(again.is(rows) && again.size == 8000);
        for width in [0, usize::MAX] {
            assert!(element_ops(ElementName { width, ..element_name(rows).unwrap() }).is_none());
        }
    }

    /// Of all names that there could be, those lead somewhere that were given.
    #[test]
    fn no_other_name_leads_anywhere() {
        let given = [element_name(ops_of::<u8>()), element_name(ops_of::<(u8, String)>())].map(|name| name.unwrap().of);
        // A megabyte around each, byte by byte.
        for name in given.iter().flat_map(|&name| name.saturating_sub(1 << 19)..name + (1 << 19)) {
            if let Some(ops) = named::<ElementOps>(name) {
                assert_eq!(super::name(ops), Some(name));
            }
            if let Some(maker) = named::<Maker>(name) {
                assert_eq!(super::name(maker), Some(name));
            }
        }
        for name in [0, 1, u64::MAX - 7, u64::MAX, 1 << 63] {
            assert!(element_ops(ElementName { of: name, width: 1 }).is_none() && task_maker(name).is_none());
        }
        // Functions have no names here, though they lie in the image.
        let function = name_of(no_maker as *const () as usize).unwrap();
        assert!(address_of(function, 1, true).is_some() && task_maker(function).is_none());
    }

    fn no_maker() {}

    #[test]
    fn what_lies_elsewhere_has_none() {
        let local = 0u8;
        assert_eq!(name_of((&raw const local).addr()), None);
        // Of another library, and none that a sanitizer replaces.
        assert_eq!(name_of(libc::labs as *const () as usize), None);
        // With the right mark before it.
        let leaked: &'static ElementOps = row_ops(ops_of::<f32>(), 3).unwrap();
        assert_eq!(name(leaked), None);
    }
}
