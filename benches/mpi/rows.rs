//! Rows of numbers that begin on cache lines, as one run of numbers that MPI can send.

/// A cache line, in numbers.
const LINE: usize = 16;

/// Rows of `K` numbers each.
pub(crate) struct Rows<const K: usize> {
    numbers: Vec<f32>,
    /// Numbers before the first line that begins in the memory.
    skipped: usize,
    count: usize,
}

impl<const K: usize> Rows<K> {
    pub(crate) fn new(rows: impl ExactSizeIterator<Item = [f32; K]>) -> Self {
        let count = rows.len();
        let mut numbers: Vec<f32> = Vec::with_capacity(count * K + LINE);
        let skipped = numbers.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        numbers.resize(skipped, 0.0);
        numbers.extend(rows.flatten());
        Self { numbers, skipped, count }
    }

    pub(crate) fn numbers(&self) -> &[f32] {
        &self.numbers[self.skipped..self.skipped + self.count * K]
    }

    pub(crate) fn numbers_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[self.skipped..self.skipped + self.count * K]
    }

    pub(crate) fn rows_mut(&mut self) -> &mut [[f32; K]] {
        self.numbers_mut().as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_on_lines_and_lie_side_by_side() {
        let mut rows = Rows::<16>::new((0..5).map(|i| [i as f32; 16]));
        assert_eq!(rows.numbers().as_ptr().align_offset(64), 0);
        assert_eq!(rows.numbers()[31..33], [1.0, 2.0]);
        assert_eq!(rows.rows_mut()[4], [4.0; 16]);
    }
}
