//! The one place that knows the serialisation library: bincode 2 with fixed-size integers.

use serde::Serialize;

/// Appends the encoding of a serde value.
///
/// # Panics
/// If the type's own `Serialize` reports an error: an encoding that stops half-way must not pass for a whole one.
pub fn encode_serde<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let config = bincode::config::standard().with_fixed_int_encoding();
    if let Err(error) = bincode::serde::encode_into_std_write(value, out, config) {
        panic!("an element of type {} can't be serialised: {error}", std::any::type_name::<T>());
    }
}
