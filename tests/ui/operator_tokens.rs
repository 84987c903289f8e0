//! Closures of operators that capture values without a size: they are values all the same, and on a worker there are none.
use std::marker::PhantomData;

use stradsap::prelude::*;

/// Only its owner can make one.
struct Token(());

#[derive(Clone, Copy)]
struct Copied(());

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1u32; 10])?;
    let (token, copied, phantom) = (Token(()), Copied(()), PhantomData::<std::rc::Rc<u8>>);
    let a = x.map(move |&n| {
        let Token(()) = token;
        n
    });
    let b = a.filter(move |n| {
        let _used = copied;
        *n > 0
    });
    println!("{}", b.count()?);
    x.transform(move |n| {
        let _used = phantom;
        *n += 1;
    })?;
    let most = x.fold(
        0,
        move |most, &n| {
            let _used = copied;
            n.max(most)
        },
        u32::max,
    )?;
    println!("{most} {:?}", x.sort_by_key(move |&n| (copied, n).1)?.to_vec()?);
    Ok(())
}
