//! Elements that a body has borrowed side by side, told apart.
//!
//! The references among a function's parameters don't overlap, and rustc tells the code generator so. Of those that views give
//! it says nothing: a factorisation of rank 8 took three times as long as the plain loop, whose vectors are different allocations.

macro_rules! apart {
    ($($function:ident: $($name:ident $t:ident),*;)*) => {$(
        /// Calls what is left of a body with what it has borrowed.
        #[inline(always)]
        pub fn $function<$($t,)* R>($($name: $t,)* rest: impl FnOnce($($t),*) -> R) -> R {
            rest($($name),*)
        }
    )*};
}
apart! {
    apart2: a A, b B;
    apart3: a A, b B, c C;
    apart4: a A, b B, c C, d D;
    apart5: a A, b B, c C, d D, e E;
    apart6: a A, b B, c C, d D, e E, f F;
}
