//! Interleaved searches for many targets in one row, so that their memory accesses overlap.

/// How many searches are interleaved: as many as fit the processor's registers, and about as many loads as it can have
/// in flight.
pub const SIDE_BY_SIDE: usize = 16;

/// For each target the last place whose number is not greater, or the first place. Branch-free: the processor would
/// mispredict half of the time.
#[inline]
pub fn places<const N: usize>(row: &[u32], targets: &[u32; N]) -> [usize; N] {
    let mut bases = [0; N];
    let mut size = row.len();
    while size > 1 {
        let half = size / 2;
        for (base, target) in bases.iter_mut().zip(targets) {
            let middle = *base + half;
            let is_above = row.get(middle).is_some_and(|at| at <= target);
            *base = if is_above { middle } else { *base };
        }
        size -= half;
    }
    bases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_where_they_are() {
        for length in (0..70).chain([127, 128, 129, 1_000]) {
            let row: Vec<u32> = (0..length).map(|index| index * 3 + 1).collect();
            for target in 0..length * 3 + 3 {
                for place in places(&row, &[target; 3]) {
                    assert_eq!(
                        place,
                        row.partition_point(|at| *at <= target).saturating_sub(1),
                        "{target} in {length}"
                    );
                }
            }
        }
    }
}
