//! What a loop may capture by value.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a bare name in a capture list may be: a value that can be serialised, since it may travel with the task.
///
/// ```
/// fn can_be_captured<T: stradsap_runtime::Value>(_: &T) {}
/// can_be_captured(&0.5f32);
/// can_be_captured(&vec![String::from("a word"), String::from("another")]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured as a value",
    label = "can't be serialised",
    note = "a captured value is copied into the task: derive `serde::Serialize` and `serde::Deserialize` for its type, or capture a DDS by reference (`&x`, `&mut x`)"
)]
pub trait Value: Send + Sync + 'static {}

// Without this rustc would report the missing halves of serde one by one.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// A captured value.
pub struct Copied<'h, T>(pub(crate) &'h T);

/// A bare name of a capture list.
pub fn value<T: Value>(value: &T) -> Copied<'_, T> {
    Copied(value)
}

/// How a tuple of captured values reaches the body. (A trait of its own: here the references need no `Self: 'v`,
/// which a body that takes any lifetime could not promise.)
#[doc(hidden)]
pub trait ValueRefs {
    /// References to the values.
    type Refs<'v>: Copy;
}

/// A tuple of captured values.
#[doc(hidden)]
pub trait Values: ValueRefs + Sync {
    #[doc(hidden)]
    fn refs(&self) -> Self::Refs<'_>;
}

macro_rules! values {
    ($(($($name:ident $n:tt)*))*) => {$(
        impl<$($name: 'static),*> ValueRefs for ($(Copied<'_, $name>,)*) {
            type Refs<'v> = ($(&'v $name,)*);
        }

        impl<$($name: Sync + 'static),*> Values for ($(Copied<'_, $name>,)*) {
            #[allow(clippy::unused_unit)]
            fn refs(&self) -> Self::Refs<'_> {
                ($(self.$n.0,)*)
            }
        }
    )*};
}
values! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 G 5)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10)
}

/// Chooses how a value arrives in the body: `Copy` types as themselves, others by reference.
pub struct Probe<'v, T>(pub &'v T);

/// For types that are `Copy`.
pub trait CopyValue {
    /// The value itself.
    type Out;
    /// The value as the body sees it.
    fn by_value(&self) -> Self::Out;
}

/// For types that are not.
pub trait RefValue {
    /// A reference to the value.
    type Out;
    /// The value as the body sees it.
    fn by_value(&self) -> Self::Out;
}

impl<T: Copy> CopyValue for Probe<'_, T> {
    type Out = T;
    #[inline(always)]
    fn by_value(&self) -> T {
        *self.0
    }
}

impl<'v, T> RefValue for &Probe<'v, T> {
    type Out = &'v T;
    #[inline(always)]
    fn by_value(&self) -> &'v T {
        self.0
    }
}
