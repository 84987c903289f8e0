//! Amounts of memory as people write them.

/// What [`bytes()`] reads.
pub const EXPECTED: &str = "a number of bytes such as 2GiB or 500MB";

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Reads a number of bytes: `1048576`, `500MB`, `2GiB`, `1.5 GiB`.
///
/// ```
/// use stradsap_dds_server::amounts::bytes;
///
/// assert_eq!((bytes("2GiB"), bytes(" 1.5 kB "), bytes("much")), (Some(2 << 30), Some(1500), None));
/// ```
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = UNITS.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    let number: f64 = digits.trim().parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0)?;
    Some(number * unit as f64).filter(|&bytes| bytes < 2f64.powi(63)).map(|bytes| bytes as u64)
}

/// Whether an amount has a unit.
pub fn has_unit(text: &str) -> bool {
    text.trim().ends_with('B')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_or_are_bytes() {
        let sizes = ["4096", "0", "500MB", "2GiB", "1.5 GiB", "12 B", " 7 "].map(bytes);
        assert_eq!(sizes, [4096, 0, 500_000_000, 2 << 30, 3 << 29, 12, 7].map(Some));
        assert!(["", "GiB", "-1", "2Gib", "8M", "inf", "1e19"].into_iter().all(|text| bytes(text).is_none()));
        assert!(has_unit("64 MiB ") && !has_unit("64"));
    }
}
