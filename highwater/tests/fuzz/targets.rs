//! What is fed to which reader. Seeds are small files as people have them.

use import::columns::Wanted;
use import::groups::{Named, arm_at, parse_groups};
use import::meta::parse_meta;
use import::number::Numbers;
use import::prometheus::answer::{parse_names, parse_series};
use import::prometheus::selector::parse_selector;
use import::rows::Rows;
use import::time::{Times, parse_instant};
use observe::openmetrics::parse::parse_exposition;
use record::{Folder, ReadOptions, Reader};
use series::series::{Point, Series};
use verdict::series::judge;
use verdict::{Label, Rules};

/// One reader, what good input of it looks like, and how it is fed.
#[allow(dead_code)] // cargo-fuzz drives the same targets and needs neither seeds nor their cost
pub struct Target {
    pub name: &'static str,
    /// Takes milliseconds, not microseconds.
    pub slow: bool,
    pub seeds: fn() -> Vec<Vec<u8>>,
    pub feed: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    target("table", tables, |bytes| {
        readings(bytes);
    }),
    Target {
        name: "judged",
        slow: true,
        seeds: tables,
        feed: judged,
    },
    target("meta", metas, |bytes| {
        if let Ok(all) = parse_meta(bytes) {
            assert!(
                all.values()
                    .all(|m| !m.restarts_s.iter().any(|t| t.is_nan()))
            );
        }
    }),
    target("groups", groupings, |bytes| {
        if let Ok(grouping) = parse_groups(bytes, Named::default(), None) {
            arm_at(&[grouping], "relay1", 1.0);
        }
    }),
    target("instant", instants, |bytes| {
        let text = std::str::from_utf8(bytes).unwrap_or("");
        let read = parse_instant(text);
        assert!(read.is_none_or(f64::is_finite), "an instant that is none");
        cells(text);
    }),
    target("answer", answers, |bytes| {
        for status in [200, 400, 503] {
            drop(parse_series(status, bytes));
            drop(parse_names(status, bytes));
        }
    }),
    target("selector", selectors, |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            parse_selector(text);
        }
    }),
    target("exposition", expositions, |bytes| {
        parse_exposition(&String::from_utf8_lossy(bytes));
    }),
    Target {
        name: "record",
        slow: true,
        seeds: || vec![include_bytes!("../record/run-schema-1.db").to_vec()],
        feed: record,
    },
    Target {
        name: "trace",
        slow: true,
        seeds: traces,
        feed: read_trace,
    },
];

/// Feeds the target of this name.
#[allow(dead_code)] // cargo-fuzz comes in here, the seeded test through the table
pub fn feed(name: &str, bytes: &[u8]) {
    for target in TARGETS.iter().filter(|t| t.name == name) {
        (target.feed)(bytes);
    }
}

const fn target(name: &'static str, seeds: fn() -> Vec<Vec<u8>>, feed: fn(&[u8])) -> Target {
    Target {
        name,
        slow: false,
        seeds,
        feed,
    }
}

/// A small trace of two threads.
fn traces() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("seed.hwt");
    let mut writer = trace::TraceWriter::create(&path).expect("a trace");
    let threads = [
        writer.thread(1, "main", true),
        writer.thread(2, "other", false),
    ];
    for round in 0..40 {
        let (at, address) = (round * 100, 4096 + round * 64);
        let events = [
            trace_abi::Event::Malloc {
                bytes: 40_000,
                address,
            },
            trace_abi::Event::ReallocStart { address },
            trace_abi::Event::ReallocEnd { bytes: 9, address },
            trace_abi::Event::Free { address },
        ];
        for (event, thread) in events.into_iter().zip([0, 0, 0, 1]) {
            writer
                .event(threads[thread], at + thread as u64, event)
                .expect("an event");
        }
    }
    writer.finish().expect("a trace");
    vec![std::fs::read(&path).expect("the trace")]
}

fn read_trace(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("any.hwt");
    // Without the seal no checksum keeps damage from the decoder.
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().skip(24).take(4).for_each(|byte| *byte = 0);
    std::fs::write(&path, &bytes).expect("a file");
    if let Ok(trace) = trace::Trace::open(&path) {
        let summary = trace::summarise(&trace);
        assert!(summary.pairing.live <= summary.allocations + summary.resizes);
    }
}

/// Cells one behind the other, as a column has them.
fn cells(text: &str) {
    let (mut times, mut numbers) = (Times::seconds(), Numbers::default());
    for (at, cell) in text.split('\n').enumerate() {
        times.learn(cell);
        let read = times.read(cell, if at % 3 == 0 { "a" } else { "b" });
        assert!(
            read.is_err() || read.is_ok_and(f64::is_finite),
            "a time that is none: {cell:?}"
        );
        numbers.learn(cell);
        drop(numbers.read(cell, 1024.0));
    }
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn tables() -> Vec<Vec<u8>> {
    let long: String = (0..40)
        .map(|i| format!("a,{},{}\n", 60 * i, 1000 + i))
        .collect();
    texts(&[
        &format!("id,t_s,rss_kib\n{long}"),
        "arm,process,t_s,rss_kib\nx,x/1,0,100\nx,x/1,60,101\ny,y/1,0,90\n",
        "timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb,frag_ratio,count,total_kb\n\
         2025-12-26T08:39:37,co,aggregate,,,,,,,,142,156491136\n\
         2025-12-26T08:39:37,co,relay,,one,A,233408,1816080,233408,7.78,,\n\
         2025-12-26T09:39:37+01:00,co,relay,,one,,233409,1816080,,7.78,,\n",
        "time,rss_gb\n2026-01-01T00:00:00Z,1.5\n2026-01-01T01:00:00Z,1.6\n",
        "id,epoch,memory\n\"a \"\"b\"\"\",1700000000,5\n",
        "sep=;\n# a comment\nID;Time;RSS (MiB)\na;26.12.2025 14:00;1.234,5\na;26.12.2025 14:01;99,5\n",
        "time,api-1,api-2 (KiB)\n23:59:30,120M,\n00:00:30,1.2 GiB,\"100,000\"\n",
        "Linux 6.1 (h) \t12/26/25\n\n# Time        UID       PID     VSZ     RSS  Command\n\
         1766757600      0       812   16204    9000  my api -x\n1766757601      0       812   16204    9001  api\n",
        "| id | date | time | rss_kib |\n|----|---|---|---|\n| a | 12/26/2025 | 2:00:00 PM | 10 |\n(1 rows)\n",
        "{\"ts\":\"2025-12-26T14:00:00,5Z\",\"pod\":\"a\",\"memory\":{\"rss_bytes\":5}}\n{\"ts\":1,\"pod\":null}\n",
        "host,pid,t_ms,rss,unit,cpu_s,start_time,allocator\nh,1,5,7,KiB,0.5,2026-01-01,x\n",
    ])
    .into_iter()
    .chain(["id,t_s,rss_kib\na,0,1\na,60,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect()])
    .collect()
}

fn metas() -> Vec<Vec<u8>> {
    texts(&[
        "id,limit_kib,restarts_s\na,4096,10;20;30\nb,,\nc,100,\n",
        "id,restarts_s\na,2026-01-01T00:00:00Z;5\n",
    ])
}

fn groupings() -> Vec<Vec<u8>> {
    texts(&[
        "fingerprint,nickname,group,dircache,maxmem,notes\n,relay1,A,0,2GB,x\n,relay2,B,0,2GB,\"y, z\"\n",
        "id,arm\nrelay1,A\n",
    ])
}

fn instants() -> Vec<Vec<u8>> {
    texts(&[
        "2026-01-01T00:00:00+02:00",
        "2026-01-01 00:00:00.25",
        "1700000000.5",
        "2026-01-01",
        "72h",
        "23:59:59\n00:00:10\n12/26/2025 2:00 PM\n26/Dec/2025:14:00:00 +0100\nFri Dec 26 14:00:00 UTC 2025",
        "1.234,5\n120M\n1 234 567 KiB\n\"100,000\"\n12.3MiB / 1GiB\n-",
    ])
}

fn answers() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a:1","job":"x"},"values":[[1700000000.1,"1.5e9"],[1700000060,"NaN"]]}]}}"#,
        r#"{"status":"success","data":["instance","job"]}"#,
        r#"{"status":"error","errorType":"bad_data","error":"parse error","warnings":["w"]}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
    ])
}

fn selectors() -> Vec<Vec<u8>> {
    texts(&[
        r#"process_resident_memory_bytes{job="x",arm=~"a|b",c!=""}"#,
        r#"{__name__="x",y!~"\"z\\"}"#,
        "rate(x[5m])",
    ])
}

fn expositions() -> Vec<Vec<u8>> {
    texts(&[
        "# HELP x y\n# TYPE x counter\nx_total{a=\"b\\\"c\"} 1 1700000000\nprocess_resident_memory_bytes 5\n# EOF\n",
        "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum 1.5\nh_count 3\n",
    ])
}

/// All rows of a table, until its end or its first error. A row must hold what it promises.
fn readings(bytes: &[u8]) -> Vec<Point> {
    let Ok(mut rows) = Rows::open(bytes, &Wanted::default()) else {
        return Vec::new();
    };
    let mut points = Vec::new();
    while let Ok(Some(row)) = rows.next_row() {
        points.push(Point {
            t_s: row.t_s,
            value: row.rss_bytes,
        });
        // What is packed may hold more than it is long; so much of it is enough.
        let is_packed = bytes.starts_with(b"\x1f\x8b");
        assert!(
            is_packed || points.len() <= bytes.len(),
            "more rows than bytes"
        );
        if points.len() > 100_000 {
            break;
        }
    }
    points
}

fn judged(bytes: &[u8]) {
    let series = Series {
        points: readings(bytes),
        restarts_s: vec![300.0],
        limit: Some(1e6),
        ..Series::default()
    };
    let verdict = judge(&series, &Rules::default());
    assert!(
        (0.0..=1.0 + 1e-9).contains(&verdict.confidence),
        "{verdict:?}"
    );
    assert!(verdict.label != Label::Insufficient || verdict.needs.is_some());
    for e in [verdict.level, verdict.slope_per_hour, verdict.asymptote] {
        assert!(
            e.is_none_or(|e| e.lo <= e.value && e.value <= e.hi),
            "{verdict:?}"
        );
    }
}

fn record(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("run.db"), bytes).expect("a file");
    if let Ok(run) = Folder::open(folder.path()) {
        drop(Reader::read(&run, &ReadOptions::default()));
    }
}
