//! Lines without a header: of tools, of CSV, of logs.

use super::tests::{of, read, read_with};
use crate::columns::Wanted;
use crate::rows::Rows;

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
const BEGIN: f64 = 1_700_000_000.0;

fn named(value: &str, id: Option<&str>) -> Wanted {
    Wanted {
        value: Some(value.into()),
        id: id.map(str::to_owned),
        ..Wanted::default()
    }
}

fn in_mib() -> Wanted {
    Wanted {
        unit: Some("MiB".into()),
        ..Wanted::default()
    }
}

fn error_of(text: &str) -> String {
    let error = read_with(text, &Wanted::default()).expect_err(text);
    error.to_string()
}

/// `mprof run --multiprocess` of memory_profiler 0.61. Numbers changed.
#[test]
fn mprof_writes_mebibytes_and_seconds() {
    let text = "CMDLINE /usr/bin/python3 app.py\nMEM 1.500000 1700000000.0000\nCHLD 0 2.000000 1700000000.0000\n\
                FUNC app.main 1.5 1700000000.1 1.6 1700000060.0\nMEM 1.750000 1700000060.0000\n";
    let expected = of(&[
        ("main", BEGIN, 1.5 * MIB),
        ("child 0", BEGIN, 2.0 * MIB),
        ("main", BEGIN + 60.0, 1.75 * MIB),
    ]);
    assert_eq!(read(text), expected);
    let rows = Rows::open(text.as_bytes(), &Wanted::default()).unwrap();
    assert_eq!(rows.notes(), ["read as a log of mprof"]);
    let broken = read_with(&format!("{text}MEM 1.7\n"), &Wanted::default()).unwrap_err();
    assert_eq!(broken.line, 6, "{broken}");
}

/// `echo $(date) $(ps aux | grep api)`.
#[test]
fn a_time_and_a_line_of_ps() {
    let ps = "root 7 0.0 12.8 1137912 900 ? Sl May06 107:20 /usr/bin/api -p 1,2";
    let expected = of(&[("7", BEGIN, 900.0 * KIB), ("7", BEGIN + 60.0, 900.0 * KIB)]);
    for (first, second) in [
        (
            "Tue Nov 14 22:13:20 UTC 2023",
            "Tue Nov 14 22:14:20 UTC 2023",
        ),
        ("2023-11-14 22:13:20", "2023-11-14 22:14:20"),
        ("2023-11-14T22:13:20+00:00", "2023-11-14T22:14:20+00:00"),
    ] {
        assert_eq!(read(&format!("{first} {ps}\n{second} {ps}\n")), expected);
    }
}

#[test]
fn tables_of_free_behind_their_times() {
    let table = |time: &str, used: &str| {
        format!(
            "{time}\n              total        used        free      shared  buff/cache   available\n\
             Mem:           7982         {used}        3000         120        1500        5000\n\
             Swap:          2047           0        2047\n"
        )
    };
    let of_units = |first: &str, second: &str| {
        table("Tue Nov 14 22:13:20 UTC 2023", first)
            + &table("Tue Nov 14 22:14:20 UTC 2023", second)
    };
    let expected = of(&[
        ("series", BEGIN, 100.0 * MIB),
        ("series", BEGIN + 60.0, 110.0 * MIB),
    ]);
    let bare = of_units("100", "110");
    assert_eq!(read_with(&bare, &in_mib()).unwrap(), expected);
    assert!(error_of(&bare).contains("--unit MiB of free -m"));
    assert_eq!(read(&of_units("100Mi", "110Mi")), expected);
    let without_times = table("", "100Mi") + &table("", "110Mi");
    assert!(error_of(&without_times).contains("--interval"));
    let wanted = Wanted {
        interval_s: Some(60.0),
        ..Wanted::default()
    };
    let read = read_with(&without_times, &wanted).unwrap();
    assert_eq!(read[1], ("series".into(), 60.0, 110.0 * MIB));
}

#[test]
fn columns_without_a_header_are_called_by_their_numbers() {
    let csv = "14/11/2023 22:13:20,api,42,1000,900000\n14/11/2023 22:14:20,api,42,1010,900000\n";
    let error = error_of(csv);
    for part in ["3 (42), 4 (1000), 5 (900000)", "--value-column"] {
        assert!(error.contains(part), "{error}");
    }
    let of_api = of(&[("api", BEGIN, 1000.0), ("api", BEGIN + 60.0, 1010.0)]);
    assert_eq!(read_with(csv, &named("4", Some("2"))).unwrap(), of_api);
    let notes = Rows::open(csv.as_bytes(), &named("4", None));
    let note = notes.unwrap().notes()[0].clone();
    assert_eq!(
        note,
        "there is no header: read as a time and the memory, columns 1 and 4"
    );

    let one = "api;14.11.2023 22:13:20;1000,5\napi;14.11.2023 22:14:20;1010,5\n";
    let of_one = of(&[
        ("series", BEGIN, 1000.5 * MIB),
        ("series", BEGIN + 60.0, 1010.5 * MIB),
    ]);
    assert_eq!(read_with(one, &in_mib()).unwrap(), of_one);
}

#[test]
fn numbers_alone_are_read_by_the_numbers_of_their_columns() {
    let csv = "0,100,7\n60,101,7\n";
    assert!(error_of(csv).contains("--time-column 1 --value-column 2"));
    let wanted = Wanted {
        time: Some("1".into()),
        ..named("2", None)
    };
    let expected = of(&[("series", 0.0, 100.0), ("series", 60.0, 101.0)]);
    assert_eq!(read_with(csv, &wanted).unwrap(), expected);
    let two = "1700000000,723000000\n1700000060,724000000\n";
    assert!(error_of(two).contains("say which is the time by its number, as --time-column 1"));
    // A header that has such a name is one.
    let header = "1,2\n0,100\n60,101\n";
    assert_eq!(read_with(header, &wanted).unwrap(), expected);
}

#[test]
fn lines_of_logs_are_no_table() {
    for text in [
        "[TIME] 8/24/2025, 4:46:59 PM [MEMORY] RSS: 427.36 MB | Heap: 58.44 MB\n\
         [TIME] 8/24/2025, 4:47:04 PM [MEMORY] RSS: 427.32 MB | Heap: 56.26 MB\n",
        "procstat,host=h1 memory_rss=104i,cpu=1.2 1700000000000000000\n\
         procstat,host=h1 memory_rss=105i,cpu=1.2 1700000060000000000\n",
        "gc 1 @0.058s 0%: 0+1.9+0 ms clock, 4->4->1 MB, 5 MB goal, 4 P\n\
         gc 2 @0.073s 0%: 0+4.8+0.93 ms clock, 4->4->2 MB, 5 MB goal, 4 P\n",
    ] {
        let error = error_of(text);
        assert!(
            error.contains("no table") && error.contains("mprof"),
            "{error}"
        );
    }
    let objects = "{\"a\":1,\"n\":\"x\"}\n{\"a\":2,\"n\":\"x\"}\n";
    assert!(error_of(objects).contains("no time column"));
}
