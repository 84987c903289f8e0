//! Ranks as constants: a row of a factor matrix is an array, so each rank is compiled for itself.

use std::str::FromStr;

/// Passes the list of ranks that programs are compiled for to a macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __offered_ranks {
    ($callback:ident $($rest:tt)*) => {
        $crate::$callback! { [8 16 24 32 40 48 50 64 80 96 100 128 160 192 200 256 300] $($rest)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __list_of_ranks {
    ([$($rank:literal)*]) => { &[$($rank),*] };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __match_rank {
    ([$($rank:literal)*] $value:expr, $function:ident $arguments:tt) => {
        match $crate::rank::Rank::get($value) {
            $($rank => $function::<$rank> $arguments,)*
            other => unreachable!("rank {other} isn't one of Rank::OFFERED"),
        }
    };
}

/// Calls a function that is generic over the rank with a [`Rank`](crate::rank::Rank) that is known at run time:
/// `with_rank!(rank, train(&args, &ratings))` calls `train::<32>(&args, &ratings)` for rank 32.
#[macro_export]
macro_rules! with_rank {
    ($rank:expr, $function:ident $arguments:tt) => {
        $crate::__offered_ranks!(__match_rank $rank, $function $arguments)
    };
}

/// A rank that the programs are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank(usize);

impl Rank {
    /// The ranks that there are.
    pub const OFFERED: &[usize] = __offered_ranks!(__list_of_ranks);

    /// The number of values in a row.
    pub const fn get(self) -> usize {
        self.0
    }
}

impl FromStr for Rank {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Rank, String> {
        let rank = text.parse().ok().filter(|rank| Rank::OFFERED.contains(rank));
        rank.map(Rank).ok_or_else(|| {
            let offered: Vec<_> = Rank::OFFERED.iter().map(ToString::to_string).collect();
            format!("expected one of {}", offered.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_of<const K: usize>() -> usize {
        K
    }

    #[test]
    fn every_offered_rank_is_dispatched() {
        for &rank in Rank::OFFERED {
            let parsed: Rank = rank.to_string().parse().unwrap();
            assert_eq!(with_rank!(parsed, rank_of()), rank);
        }
    }

    #[test]
    fn other_ranks_are_refused() {
        for text in ["0", "33", "-8", "", "abc", "1e2"] {
            let message = text.parse::<Rank>().unwrap_err();
            assert!(message.starts_with("expected one of 8, 16, ") && message.ends_with("300"), "{message}");
        }
    }
}
