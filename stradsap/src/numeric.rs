//! Numbers and rows of numbers, as files of arrays have them.

use safetensors::Dtype;

use crate::Element;

/// A number, or a row of numbers: what `.npy` and `.safetensors` files hold.
///
/// ```
/// use stradsap::Numeric;
///
/// assert!(f32::shape().is_empty());
/// assert_eq!(<[f64; 100]>::shape(), [100]);
/// assert_eq!(<[[u8; 3]; 2]>::shape(), [2, 3]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a number nor a row of numbers",
    label = "not an array's element",
    note = "records with named fields are written with `write_csv` and read with `read_csv`"
)]
pub trait Numeric: Element + sealed::Sealed {
    /// The lengths of the row: none for a number.
    fn shape() -> Vec<usize>;

    /// What the numbers are.
    #[doc(hidden)]
    fn scalar() -> Scalar;

    /// Calls with the text of each number.
    #[doc(hidden)]
    fn each_text(&self, f: &mut dyn FnMut(&str));
}

/// A kind of number.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    /// As numpy names it, without its byte order.
    pub npy: &'static str,
    pub safetensors: Dtype,
    pub bytes: usize,
}

impl Scalar {
    /// As numpy names it where the least byte comes first.
    pub(crate) fn descr(self) -> String {
        format!("{}{}", if self.bytes == 1 { '|' } else { '<' }, self.npy)
    }

    /// Turns bytes as files have them into bytes as memory has them, or back.
    pub(crate) fn swap(self, bytes: &mut [u8], big: bool) {
        if self.bytes > 1 && big != cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(self.bytes).for_each(<[u8]>::reverse);
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! scalars {
    ($($t:ty, $npy:literal, $dtype:ident;)*) => {$(
        impl sealed::Sealed for $t {}
        impl Numeric for $t {
            fn shape() -> Vec<usize> {
                Vec::new()
            }
            fn scalar() -> Scalar {
                Scalar { npy: $npy, safetensors: Dtype::$dtype, bytes: size_of::<$t>() }
            }
            fn each_text(&self, f: &mut dyn FnMut(&str)) {
                f(&self.to_string());
            }
        }
    )*};
}
scalars! {
    f32, "f4", F32;
    f64, "f8", F64;
    i8, "i1", I8;
    i16, "i2", I16;
    i32, "i4", I32;
    i64, "i8", I64;
    u8, "u1", U8;
    u16, "u2", U16;
    u32, "u4", U32;
    u64, "u8", U64;
}

impl<T: Numeric, const N: usize> sealed::Sealed for [T; N] {}

impl<T: Numeric, const N: usize> Numeric for [T; N] {
    fn shape() -> Vec<usize> {
        let mut shape = vec![N];
        shape.extend(T::shape());
        shape
    }

    fn scalar() -> Scalar {
        T::scalar()
    }

    fn each_text(&self, f: &mut dyn FnMut(&str)) {
        self.iter().for_each(|number| number.each_text(f));
    }
}

/// A shape as numpy writes it.
pub(crate) fn shape_text<N: ToString>(shape: &[N]) -> String {
    match shape {
        [one] => format!("({},)", one.to_string()),
        _ => format!("({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
