//! The meter's figures as OpenMetrics text.

use core::fmt::{self, Write};

use super::figures::{Bucket, Figures, figures};

/// Writes the figures; nothing when the meter is off.
pub(crate) fn openmetrics(out: &mut impl Write) -> fmt::Result {
    let Some(figures) = figures() else {
        return Ok(());
    };
    write(&figures, out)
}

fn write(figures: &Figures, out: &mut impl Write) -> fmt::Result {
    counter(out, "allocations", figures.allocations)?;
    counter(out, "frees", figures.frees)?;
    counter(out, "requested_bytes", figures.allocated_bytes)?;
    counter(out, "cross_thread_frees", figures.cross_thread_frees)?;
    counter(out, "meter_samples_lost", figures.lost.samples)?;
    gauge(out, "live_blocks", figures.live_blocks())?;
    gauge(out, "live_bytes", figures.live_bytes())?;
    gauge(out, "meter_mean_bytes", figures.mean_bytes)?;
    classes(figures, out)?;
    roles(figures, out)?;
    histogram(out, "allocation", &figures.latencies, |bucket| {
        bucket.allocations
    })?;
    histogram(out, "free", &figures.latencies, |bucket| bucket.frees)
}

fn counter(out: &mut impl Write, name: &str, value: u64) -> fmt::Result {
    writeln!(out, "# TYPE highwater_alloc_{name} counter")?;
    writeln!(out, "highwater_alloc_{name}_total {value}")
}

fn gauge(out: &mut impl Write, name: &str, value: u64) -> fmt::Result {
    writeln!(out, "# TYPE highwater_alloc_{name} gauge")?;
    writeln!(out, "highwater_alloc_{name} {value}")
}

fn classes(figures: &Figures, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "# TYPE highwater_alloc_class_live_bytes gauge")?;
    for class in &figures.classes {
        let (upper, live) = (class.upper_bytes, class.live_bytes);
        writeln!(
            out,
            "highwater_alloc_class_live_bytes{{upto=\"{upper}\"}} {live}"
        )?;
    }
    Ok(())
}

fn roles(figures: &Figures, out: &mut impl Write) -> fmt::Result {
    for (name, value) in [
        (
            "allocated",
            (|role| role.allocated_bytes) as fn(&super::Role) -> u64,
        ),
        ("freed", |role| role.freed_bytes),
    ] {
        writeln!(out, "# TYPE highwater_alloc_role_{name}_bytes counter")?;
        for role in &figures.roles {
            let label = escaped(&role.name);
            let value = value(role);
            writeln!(
                out,
                "highwater_alloc_role_{name}_bytes_total{{role=\"{label}\"}} {value}"
            )?;
        }
    }
    Ok(())
}

/// Cumulative, as the format wants it. The sum of durations is not kept, so there is no `_sum`, and without it there
/// must be no `_count`: the last bucket has it.
fn histogram(
    out: &mut impl Write,
    name: &str,
    buckets: &[Bucket],
    count: impl Fn(&Bucket) -> u64,
) -> fmt::Result {
    writeln!(out, "# TYPE highwater_alloc_{name}_seconds histogram")?;
    writeln!(out, "# UNIT highwater_alloc_{name}_seconds seconds")?;
    let mut sum = 0;
    for bucket in buckets.iter().filter(|bucket| bucket.upper_ns < u64::MAX) {
        sum += count(bucket);
        let upper = bucket.upper_ns as f64 / 1e9;
        writeln!(
            out,
            "highwater_alloc_{name}_seconds_bucket{{le=\"{upper}\"}} {sum}"
        )?;
    }
    let all: u64 = buckets.iter().map(count).sum();
    writeln!(
        out,
        "highwater_alloc_{name}_seconds_bucket{{le=\"+Inf\"}} {all}"
    )
}

/// A label's value: a thread's name is any text.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}
