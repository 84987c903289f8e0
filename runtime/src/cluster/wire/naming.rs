//! Names for code and constants that mean the same in every process that runs the same executable: how far into the
//! executable's image they lie.
//!
//! # Why this is sound
//! An offset is turned back into an address only for a peer that has proved the job's secret and a hash of the same
//! executable (see `hello` in stradsap-dds-server). The same file is laid out in the same way wherever it is loaded,
//! so the offset leads to the function or constant that it was taken from (see `memory::image`).
#![allow(unsafe_code)]

use serde::{Deserialize, Serialize};

use crate::body::added::{ReductionOps, RelaxedOps};
use crate::body::task::MakeTask;
use crate::memory::additive::TallyOps;
use crate::memory::buffer::{ElementOps, row_ops};
use crate::memory::image::address_of;
pub(crate) use crate::memory::image::name_of;
use crate::minibatch::MakeBatchTask;
use crate::operate::stage::MakeStage;
use crate::scheduled::remote::MakeProgram;

/// # Safety
/// `name` is [`name_of`] a [`MakeTask`], given in a process that runs the same executable.
pub(crate) unsafe fn task_maker(name: u64) -> Option<MakeTask> {
    let address = address_of(name, 1, true)?;
    // SAFETY: the caller's promise: the address is that of such a function.
    Some(unsafe { std::mem::transmute::<*const (), MakeTask>(std::ptr::with_exposed_provenance(address)) })
}

/// # Safety
/// `name` is [`name_of`] a [`MakeBatchTask`], given in a process that runs the same executable.
pub(crate) unsafe fn batch_task_maker(name: u64) -> Option<MakeBatchTask> {
    let address = address_of(name, 1, true)?;
    // SAFETY: the caller's promise: the address is that of such a function.
    Some(unsafe { std::mem::transmute::<*const (), MakeBatchTask>(std::ptr::with_exposed_provenance(address)) })
}

/// # Safety
/// `name` is [`name_of`] a [`MakeStage`], given in a process that runs the same executable.
pub(crate) unsafe fn stage_maker(name: u64) -> Option<MakeStage> {
    let address = address_of(name, 1, true)?;
    // SAFETY: the caller's promise: the address is that of such a function.
    Some(unsafe { std::mem::transmute::<*const (), MakeStage>(std::ptr::with_exposed_provenance(address)) })
}

/// # Safety
/// `name` is [`name_of`] a [`MakeProgram`], given in a process that runs the same executable.
pub(crate) unsafe fn program_maker(name: u64) -> Option<MakeProgram> {
    let address = address_of(name, 1, true)?;
    // SAFETY: the caller's promise: the address is that of such a function.
    Some(unsafe { std::mem::transmute::<*const (), MakeProgram>(std::ptr::with_exposed_provenance(address)) })
}

/// Names the operations of elements; those of rows have no place in the executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ElementName {
    /// Of a row's numbers.
    of: u64,
    width: usize,
}

pub(crate) fn element_name(ops: &'static ElementOps) -> Option<ElementName> {
    let of = name_of(std::ptr::from_ref(ops.of_one()).expose_provenance())?;
    Some(ElementName { of, width: ops.width() })
}

/// # Safety
/// `name` is an [`element_name`], given in a process that runs the same executable.
pub(crate) unsafe fn element_ops(name: ElementName) -> Option<&'static ElementOps> {
    let address = address_of(name.of, size_of::<ElementOps>(), false)?;
    // SAFETY: the caller's promise: a constant of this type lies there.
    let of = (address % align_of::<ElementOps>() == 0)
        .then(|| unsafe { &*std::ptr::with_exposed_provenance::<ElementOps>(address) })?;
    row_ops(of, name.width)
}

/// # Safety
/// `name` is [`name_of`] a [`ReductionOps`], given in a process that runs the same executable.
pub(crate) unsafe fn reduction_ops(name: u64) -> Option<&'static ReductionOps> {
    let address = address_of(name, size_of::<ReductionOps>(), false)?;
    // SAFETY: the caller's promise: a constant of this type lies there.
    (address % align_of::<ReductionOps>() == 0)
        .then(|| unsafe { &*std::ptr::with_exposed_provenance::<ReductionOps>(address) })
}

/// # Safety
/// `name` is [`name_of`] a [`RelaxedOps`], given in a process that runs the same executable.
pub(crate) unsafe fn relaxed_ops(name: u64) -> Option<&'static RelaxedOps> {
    let address = address_of(name, size_of::<RelaxedOps>(), false)?;
    // SAFETY: the caller's promise: a constant of this type lies there.
    (address % align_of::<RelaxedOps>() == 0)
        .then(|| unsafe { &*std::ptr::with_exposed_provenance::<RelaxedOps>(address) })
}

/// # Safety
/// `name` is [`name_of`] a [`TallyOps`], given in a process that runs the same executable.
pub(crate) unsafe fn tally_ops(name: u64) -> Option<&'static TallyOps> {
    let address = address_of(name, size_of::<TallyOps>(), false)?;
    // SAFETY: the caller's promise: a constant of this type lies there.
    (address % align_of::<TallyOps>() == 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<TallyOps>(address) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::buffer::ops_of;

    #[test]
    fn constants_and_functions_of_the_program_have_names() {
        let ops = ops_of::<[f32; 8]>();
        let name = element_name(ops).unwrap();
        // SAFETY: the name of these very ops.
        let again = unsafe { element_ops(name) }.unwrap();
        assert!(std::ptr::eq(ops, again) && again.size == 32);
        // SAFETY: refused, since constants are no code.
        assert!(unsafe { task_maker(name.of) }.is_none());
    }

    #[test]
    fn rows_are_named_by_their_numbers_and_their_width() {
        let rows = row_ops(ops_of::<f64>(), 1000).unwrap();
        // SAFETY: the name of these very ops.
        let again = unsafe { element_ops(element_name(rows).unwrap()) }.unwrap();
        assert!(again.is(rows) && again.size == 8000);
        for width in [0, usize::MAX] {
            // SAFETY: no rows are as wide.
            assert!(unsafe { element_ops(ElementName { width, ..element_name(rows).unwrap() }) }.is_none());
        }
    }

    #[test]
    fn what_lies_elsewhere_has_none() {
        let local = 0u8;
        assert_eq!(name_of((&raw const local).addr()), None);
        // Of another library, and none that a sanitizer replaces.
        assert_eq!(name_of(libc::labs as *const () as usize), None);
        // SAFETY: refused, since no program is that large.
        assert!(unsafe { element_ops(ElementName { of: u64::MAX - 7, width: 1 }) }.is_none());
    }
}
