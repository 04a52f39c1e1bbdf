//! Buckets of sizes, latencies and lifetimes. Structural: a change is a new [`crate::VERSION`].

/// Size classes: four to an octave from 16 bytes; the last is open.
pub const CLASSES: usize = 128;
/// Latency buckets: four to an octave from 1 ns; the last is open.
pub const LATENCIES: usize = 144;
/// Lifetime buckets of a stack: one per factor of eight from 1 us; the last is open.
pub const LIFETIMES: usize = 12;

const CLASS_FIRST_BYTES: u64 = 16;
const LIFETIME_FIRST_NS: u64 = 1_000;

/// Class of an allocation of `bytes` usable bytes: the first class whose upper bound is not below
/// it.
pub const fn class_of(bytes: u64) -> usize {
    if bytes <= CLASS_FIRST_BYTES {
        return 0;
    }
    clamp(quarter_octave((bytes - 1) / 4) - 3, CLASSES)
}

/// Largest size in a class, bytes; `u64::MAX` for the last.
pub const fn class_upper_bytes(class: usize) -> u64 {
    if class + 1 >= CLASSES {
        return u64::MAX;
    }
    4 * quarter_octave_upper(class + 3)
}

/// Bucket of a duration of `ns` nanoseconds.
pub const fn latency_of(ns: u64) -> usize {
    clamp(quarter_octave(ns), LATENCIES)
}

/// First duration past a bucket, ns; `u64::MAX` for the last.
pub const fn latency_upper_ns(bucket: usize) -> u64 {
    if bucket + 1 >= LATENCIES {
        return u64::MAX;
    }
    quarter_octave_upper(bucket)
}

/// Bucket of a lifetime of `ns` nanoseconds.
pub const fn lifetime_of(ns: u64) -> usize {
    if ns < LIFETIME_FIRST_NS {
        return 0;
    }
    clamp((ns / LIFETIME_FIRST_NS).ilog2() as usize / 3 + 1, LIFETIMES)
}

/// First lifetime past a bucket, ns; `u64::MAX` for the last.
pub const fn lifetime_upper_ns(bucket: usize) -> u64 {
    if bucket + 1 >= LIFETIMES {
        return u64::MAX;
    }
    LIFETIME_FIRST_NS << (3 * bucket)
}

/// 0, 1, 2, 3 for themselves; then four equal steps to each octave.
const fn quarter_octave(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let octave = value.ilog2() as usize;
    4 * (octave - 1) + ((value >> (octave - 2)) & 3) as usize
}

/// First value past a step of [`quarter_octave`].
const fn quarter_octave_upper(step: usize) -> u64 {
    let next = step + 1;
    if next < 4 {
        return next as u64;
    }
    ((4 + next % 4) as u64) << (next / 4 - 1)
}

const fn clamp(bucket: usize, count: usize) -> usize {
    if bucket < count { bucket } else { count - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_under_its_upper_bound_and_over_the_one_before() {
        for bytes in (0..70_000).chain([1 << 20, (1 << 20) + 1, 1 << 40, u64::MAX]) {
            let class = class_of(bytes);
            assert!(
                bytes <= class_upper_bytes(class),
                "{bytes} in class {class}"
            );
            if class > 0 {
                assert!(
                    bytes > class_upper_bytes(class - 1),
                    "{bytes} in class {class}"
                );
            }
        }
    }

    #[test]
    fn classes_are_at_most_a_quarter_wide() {
        for class in 1..CLASSES - 1 {
            let (below, upper) = (class_upper_bytes(class - 1), class_upper_bytes(class));
            assert!(
                upper > below && upper - below <= below.div_ceil(4),
                "class {class}"
            );
        }
    }

    #[test]
    fn every_latency_is_in_its_bucket() {
        for ns in (0..20_000).chain([1 << 30, 1 << 35, u64::MAX]) {
            let bucket = latency_of(ns);
            assert!(ns < latency_upper_ns(bucket) || bucket + 1 == LATENCIES);
            assert!(
                bucket == 0 || ns >= latency_upper_ns(bucket - 1),
                "{ns} in {bucket}"
            );
        }
    }

    #[test]
    fn every_lifetime_is_in_its_bucket() {
        for ns in [
            0,
            999,
            1_000,
            7_999,
            8_000,
            63_999,
            64_000,
            3_600_000_000_000,
            u64::MAX,
        ] {
            let bucket = lifetime_of(ns);
            assert!(ns < lifetime_upper_ns(bucket) || bucket + 1 == LIFETIMES);
            assert!(
                bucket == 0 || ns >= lifetime_upper_ns(bucket - 1),
                "{ns} in {bucket}"
            );
        }
    }
}
