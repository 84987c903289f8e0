//! Named arrays in the safetensors format.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::View;

use super::atomic::{self, Failure};
use super::{Numbers, little_endian};
use crate::{Numeric, Result};

/// A DVector or a DMatrix of any numbers.
pub trait Tensor: sealed::Sealed {
    #[doc(hidden)]
    fn dtype(&self) -> Dtype;
    #[doc(hidden)]
    fn shape(&self) -> Vec<usize>;
    #[doc(hidden)]
    fn write_to(&self, out: &mut dyn Write) -> io::Result<Result<()>>;
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for crate::DVector<T> {}
    impl<T> Sealed for crate::DMatrix<T> {}
}

impl<T: Numeric, D: Numbers<Number = T> + sealed::Sealed> Tensor for D {
    fn dtype(&self) -> Dtype {
        T::scalar().safetensors
    }

    fn shape(&self) -> Vec<usize> {
        Numbers::shape(self)
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<Result<()>> {
        let mut bytes = Vec::new();
        let written = self.each(|numbers| {
            little_endian(numbers, &mut bytes);
            Ok(out.write_all(&bytes)?)
        });
        match written {
            Err(Failure::Io(error)) => Err(error),
            Err(Failure::Other(error)) => Ok(Err(error)),
            Ok(()) => Ok(Ok(())),
        }
    }
}

/// What the library's header is made from: it asks for each tensor's bytes in the order of the file, and gets none, so that
/// no copy of them all is needed.
struct Asked<'a> {
    k: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    order: &'a RefCell<Vec<usize>>,
}

impl View for Asked<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.order.borrow_mut().push(self.k);
        Cow::Borrowed(&[])
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }
}

/// Writes several DVectors or DMatrices of numbers into one file, each under a name of its own.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let path = "model.safetensors";
/// # let path = &folder.path().join(path);
/// let session = Session::new()?;
/// let p = DVector::from_fn(&session, 3, |i| [i as f32; 4])?;
/// let bias = DVector::from_fn(&session, 3, |i| i as f64)?;
/// stradsap::write_safetensors(&path, &[("p", &p), ("bias", &bias)])?;
/// assert!(std::fs::metadata(&path)?.len() > 3 * (4 * 4 + 8));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File) if the file can't be written or two names are the same. The old content then stays.
pub fn write_safetensors(path: impl AsRef<Path>, tensors: &[(&str, &dyn Tensor)]) -> Result<()> {
    let invalid = |problem: String| Failure::Io(io::Error::new(io::ErrorKind::InvalidInput, problem));
    atomic::write(path.as_ref(), |out| {
        for (k, (name, _)) in tensors.iter().enumerate() {
            if *name == "__metadata__" || tensors[..k].iter().any(|(other, _)| other == name) {
                return Err(invalid(format!("the name {name:?} is taken; one of its own was expected")));
            }
        }
        let order = RefCell::new(Vec::new());
        let views = tensors.iter().enumerate().map(|(k, (name, tensor))| {
            (*name, Asked { k, dtype: tensor.dtype(), shape: tensor.shape(), order: &order })
        });
        let header = safetensors::serialize(views, None).map_err(|error| invalid(error.to_string()))?;
        out.write_all(&header)?;
        drop(header);
        for k in order.into_inner() {
            if let Some((_, tensor)) = tensors.get(k) {
                tensor.write_to(out)??;
            }
        }
        Ok(())
    })
}
