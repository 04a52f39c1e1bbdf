//! Tables as programs and people write them, and the same reading out of each.

use super::*;

fn read(text: &str) -> Result<Vec<Row>, ImportError> {
    let mut rows = Rows::open(text.as_bytes(), &Wanted::default())?;
    let mut all = Vec::new();
    while let Some(row) = rows.next_row()? {
        all.push(row);
    }
    Ok(all)
}

#[test]
fn rows_with_and_without_arms() {
    let rows = read("id,t_s,rss_kib\na,0,10\nb,1.5,\n").unwrap();
    assert_eq!(
        (rows[0].id.as_str(), rows[0].t_s, rows[0].rss_bytes),
        ("a", 0.0, 10_240.0)
    );
    assert!(rows[1].rss_bytes.is_nan());
    let rows = read("arm,process,t_s,rss_kib\njemalloc,0,0,10\n").unwrap();
    assert_eq!(
        (rows[0].id.as_str(), rows[0].arm.as_str()),
        ("jemalloc/0", "jemalloc")
    );
}

/// Lines of tor-2025-12-26/memory_measurements.csv, github.com/1aeo/TorUtils, Apache-2.0.
#[test]
fn a_torutils_file_without_its_sums() {
    let text = "timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb,frag_ratio,\
                count,total_kb,avg_kb,min_kb,max_kb\n\
                2025-12-26T08:39:37,co,aggregate,,,,,,,,142,156491136,1102050,217492,3146096\n\
                2025-12-26T08:39:37,co,relay,,22gz,A,233408,1816080,233408,7.78,,,,,\n";
    let rows = read(text).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].arm.as_str(), rows[0].process.as_str()),
        ("A", "22gz")
    );
    assert_eq!(rows[0].rss_bytes, 233_408.0 * 1024.0);
    assert_eq!(rows[0].hwm_bytes, Some(233_408.0 * 1024.0));
}

#[test]
fn errors_say_line_and_column() {
    let place = |text: &str| read(text).map_err(|e| (e.line, e.column)).unwrap_err();
    assert_eq!(place("id,t_s,rss_kib\na,0,1\na,1,lots\n"), (3, 3));
    assert_eq!(place("id,t_s,rss_kib\na,soon,1\n"), (2, 2));
    assert_eq!(place("id,t_s,rss_kib\na,0\n"), (2, 3));
    assert_eq!(place(""), (1, 1));
    assert_eq!(place("1,2,3\n4,5,6\n"), (1, 1));
    assert_eq!(place("id,when,rss_kib\n"), (1, 1));
    assert_eq!(read("id,t_s,rss_kib\n").unwrap(), []);
}

#[test]
fn other_delimiters_joined_files_and_no_text() {
    for text in ["id;t_s;rss_kib\na;0;10\n", "id\tt_s\trss_kib\na\t0\t10\n"] {
        assert_eq!(read(text).unwrap()[0].rss_bytes, 10_240.0, "{text:?}");
    }
    let joined = read("id,t_s,rss_kib\na,0,1\nid,t_s,rss_kib\na,60,1\n").unwrap();
    assert_eq!(joined.len(), 2);
    assert_eq!(read("id,t\0s\n").unwrap_err().what, "this is no text");
}

#[test]
fn epoch_milliseconds_are_not_taken_for_seconds() {
    let of =
        |header: &str| read(&format!("id,{header},rss_kib\na,1795000000500,1\n")).unwrap()[0].t_s;
    assert_eq!(of("timestamp"), 1_795_000_000.5);
    assert_eq!(of("t_ms"), 1_795_000_000.5);
    assert_eq!(read("id,t_ms,rss_kib\na,1500,1\n").unwrap()[0].t_s, 1.5);
}

#[test]
fn a_record_without_an_end_does_not_fill_the_memory() {
    let zeros = std::io::repeat(b'0');
    let error = Rows::open(zeros, &Wanted::default())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        (error.line, error.what.as_str()),
        (1, "a record longer than 16 MiB")
    );
    let quote = "id,t_s,rss_kib\na,0,1\n\"b,0,1\n"
        .as_bytes()
        .chain(std::io::repeat(b'\n'));
    let mut rows = Rows::open(quote, &Wanted::default()).unwrap();
    assert!(rows.next_row().unwrap().is_some());
    let error = rows.next_row().unwrap_err();
    assert_eq!(error.line, 3, "{error}");
}

proptest::proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        if let Ok(mut rows) = Rows::open(&bytes[..], &Wanted::default()) {
            while let Ok(Some(_)) = rows.next_row() {}
        }
        let text = [b"id,t_s,rss_kib\n".as_slice(), &bytes].concat();
        if let Ok(mut rows) = Rows::open(&text[..], &Wanted::default()) {
            while let Ok(Some(_)) = rows.next_row() {}
        }
    }
}

/// Id, seconds and bytes of every row.
fn told(input: &[u8], wanted: &Wanted) -> Result<Vec<(String, f64, f64)>, ImportError> {
    let mut rows = Rows::open(input, wanted)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next_row()? {
        all.push((row.id, row.t_s, row.rss_bytes));
    }
    Ok(all)
}

const KIB: f64 = 1024.0;
/// 2025-12-26T14:00:00Z.
const THEN: f64 = 1_766_757_600.0;

/// One reading of 100,000 KiB of `a` at one instant, in every form.
#[test]
fn one_reading_in_many_tables() {
    for table in [
        "id,timestamp,rss_kib\na,1766757600,100000\n",
        "\u{feff}\"id\",\"timestamp\",\"rss_kib\"\r\n\"a\",\"1766757600\",\"100000\"\r\n",
        "ID,TIMESTAMP,RSS_KIB\na,1766757600000,100000\n",
        "id,timestamp,rss_kib\na,1766757600,\"100,000\"\n",
        "id;timestamp;rss_kib\na;1766757600;100000,0\n",
        "sep=;\nid;timestamp;rss_kib\na;1766757600;100.000,0\n",
        "id\tTime\tRSS (KiB)\na\t2025-12-26 14:00:00\t100000\n",
        "id,time,rss\na,2025-12-26T14:00:00Z,100000 KiB\n",
        "id,time,Memory Usage\na,2025-12-26T15:00:00+01:00,97.65625MiB\n",
        "# a comment\n\nid,time,rss [kB]\n# another\na,\"2025-12-26 14:00:00,000\",100000\n",
        "Memory of the api\n\nid,time,rss_kib\na,12/26/2025 14:00,100000\n",
        "id,date,time,rss_kib\na,2025-12-26,14:00:00,100000\n",
        "#id,timestamp,rss_kib\na,1766757600,100000\n",
        "# id timestamp rss_kib\na 1766757600 100000\n",
        "id  timestamp   rss_kib\na   1766757600   100000\n",
        "Time PID RSS COMMAND\n1766757600 a 100000 /usr/bin/api -p 1\n",
        "PID TIMESTAMP RSS\na 2025-12-26 14:00:00 100000\n",
        "| id | timestamp | rss_kib |\n|----|-----------|---------|\n| a | 1766757600 | 100000 |\n",
        " id | timestamp | rss_kib \n----+-----------+---------\n a | 1766757600 | 100000\n(1 rows)\n",
        "{\"id\":\"a\",\"timestamp\":1766757600,\"rss_kib\":100000}\n",
        "{\"timestamp\":\"2025-12-26T14:00:00Z\",\"id\":\"a\",\"memory\":{\"rss_bytes\":102400000}}\n",
        "time,a,b\n1766757600,102400000,\n",
        "time;a (KiB);b (KiB)\n1766757600;100000,0;\n",
        "id,timestamp,rss,unit\na,1766757600,100000,KiB\n",
        "id,t_min,rss_kib,\na,29445960,100000,\n",
    ] {
        let rows =
            told(table.as_bytes(), &Wanted::default()).unwrap_or_else(|e| panic!("{table}: {e}"));
        assert_eq!(rows, [("a".to_owned(), THEN, 100_000.0 * KIB)], "{table}");
    }
}

/// Of sysstat 12.7: `pidstat -r 1 2` and `pidstat -hr 1 1`; of psrecord 1.4: its log. Numbers changed.
#[test]
fn tables_of_tools() {
    let classic = "Linux 6.1.0-18-amd64 (host) \t12/26/25 \t_x86_64_\t(4 CPU)\n\n\
        11:59:59 PM   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n\
        11:59:59 PM     0       812      1.00      0.00   16204    9000   0.11  my api\n\n\
        12:00:00 AM   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n\
        12:00:00 AM     0       812      0.00      0.00   16204    9004   0.11  my api\n\n\
        Average:        0       812      0.50      0.00   16204    9002   0.11  my api\n";
    let rows = told(classic.as_bytes(), &Wanted::default()).unwrap();
    let second = ("812".to_owned(), 86_400.0, 9004.0 * KIB);
    assert_eq!(rows, [("812".to_owned(), 86_399.0, 9000.0 * KIB), second]);
    let flat = "Linux 6.1.0-18-amd64 (host) \t12/26/25 \t_x86_64_\t(4 CPU)\n\n\
        # Time        UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n\
        1766757600      0       812      1.00      0.00   16204    9000   0.11  api\n\
        # Time        UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n\
        1766757601      0       812      1.00      0.00   16204    9001   0.11  api\n";
    let rows = told(flat.as_bytes(), &Wanted::default()).unwrap();
    assert_eq!(
        (rows.len(), &rows[0]),
        (2, &("812".to_owned(), THEN, 9000.0 * KIB))
    );
    let record = "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n\
        \x20      0.000        0.000       20.500      100.100\n\
        \x20      1.250        3.000       21.500      100.100\n";
    let rows = told(record.as_bytes(), &Wanted::default()).unwrap();
    // It divides by 1024 x 1024.
    let second = [("series".to_owned(), 1.25, 21.5 * 1024.0 * KIB)];
    assert_eq!(rows[1..], second);
    let csv = "elapsed_time,nproc,cpu,mem_real,mem_virtual\n0.0,1,0.0,20.5,100.1\n1.25,1,3.0,21.5,100.1\n";
    assert_eq!(
        told(csv.as_bytes(), &Wanted::default()).unwrap()[1..],
        second
    );
}

#[test]
fn what_cannot_be_read_right_is_refused_with_its_place() {
    for (table, place, part) in [
        ("id;t_s;rss_kib\na;0;123,456\n", (2, 3), "--decimal"),
        (
            "id;t_s;rss_kib\na;0;1.5\na;1;1.234,5\n",
            (3, 3),
            "--decimal",
        ),
        ("id,time,rss_kib\na,3/4/2026 10:00,5\n", (2, 2), "--dates"),
        ("id,Date,rss_kib\na,46017.58,5\n", (2, 2), "spreadsheets"),
        (
            "id,time,rss_kib\na,10:00,5\na,08:00,5\n",
            (3, 2),
            "write the date",
        ),
        ("id,t,rss\na,0,1 MiB\na,1,900\n", (3, 3), "--unit"),
        ("time,a,a\n0,1,2\n", (1, 3), "name of its own"),
        ("PID RSS COMMAND\n1 2 3\n", (1, 1), "no time column"),
        ("time id rss\n1 a b 5\n", (2, 4), "commas between"),
        ("time rss\n1 5 5\n", (2, 3), "commas between"),
        ("[{\"t\":1}]\n", (1, 1), "no memory column"),
        ("[{\"a\":1}]\n", (1, 1), "jq"),
        ("{\"t\":1,\n", (1, 7), "jq -c"),
        (
            "{\"status\":\"success\",\"data\":{}}\n",
            (1, 1),
            "--prometheus",
        ),
        ("<html>\n", (1, 1), "web page"),
        ("id,t_s,rss_kib\na,0,12%\n", (2, 3), "no number"),
        ("title\nid,t_s,rss_kib\na,0,x\n", (3, 3), "no number"),
        ("id,t_s,rss_kib\na\u{e9},0\n", (2, 3), "2 fields"),
    ] {
        let error = told(table.as_bytes(), &Wanted::default()).expect_err(table);
        assert_eq!((error.line, error.column), place, "{table}: {error}");
        assert!(error.to_string().contains(part), "{table}: {error}");
    }
    let latin = told(b"id,t_s,rss_kib\ncaf\xe9,0,1\n", &Wanted::default()).unwrap_err();
    assert!(latin.line == 2 && latin.next.contains("iconv"), "{latin}");
}

#[test]
fn flags_say_what_a_table_does_not() {
    use super::super::number::Decimal;
    use super::super::time::DateOrder;
    let comma = Wanted {
        decimal: Some(Decimal::Comma),
        ..Wanted::default()
    };
    let rows = told(b"id;t_s;rss_kib\na;0;123,456\n", &comma).unwrap();
    assert_eq!(rows[0].2, 123.456 * KIB);
    let days = Wanted {
        dates: Some(DateOrder::DayFirst),
        ..Wanted::default()
    };
    let rows = told(
        b"id,time,rss_kib\na,26/12/2025 14:00,1\na,3/4/2026 10:00,5\n",
        &days,
    )
    .unwrap();
    assert_eq!(rows[0].1, THEN);
    let wide = Wanted {
        wide: true,
        unit: Some("KiB".to_owned()),
        ..Wanted::default()
    };
    assert_eq!(
        told(b"time,memory\n5,7\n", &wide).unwrap(),
        [("memory".to_owned(), 5.0, 7.0 * KIB)]
    );
}

#[test]
fn what_is_assumed_is_said() {
    let notes = |table: &str| {
        Rows::open(table.as_bytes(), &Wanted::default())
            .unwrap()
            .notes()
            .join("; ")
    };
    assert_eq!(notes("id,t_s,rss_kib\na,0,1\n"), "");
    assert!(notes("t_s,rss\n0,1\n").contains("read as bytes"));
    assert!(notes("PID TIMESTAMP RSS\n1 0 100\n").contains("read as KiB"));
    assert!(notes("t_s,rss\n0,120M\n").contains("M is read as MiB"));
    assert!(notes("time,rss_kib\n10:00,5\n").contains("midnight"));
    assert!(notes("zone,t_s,rss_kib\neast,0,1\n").contains("is it one of zone"));
    assert!(
        notes("t_s,a,b,c,d,e\n0,1,1,1,1,1\n")
            .contains("each of 5 columns is a process: a, b, c, d, ...")
    );
}

#[test]
fn facts_beside_a_reading() {
    let table = "id,t_s,rss_kib,hwm_kib,cpu_s,requests_total,lazyfree_kib,start_time,allocator\n\
                 a,100,10,12,1.5,7,3,95.5,jemalloc\n";
    let row = &read(table).unwrap()[0];
    assert_eq!(
        (row.hwm_bytes, row.cpu_s, row.requests),
        (Some(12.0 * KIB), Some(1.5), Some(7.0))
    );
    assert_eq!(
        (row.lazy_free_bytes, row.start_s),
        (Some(3.0 * KIB), Some(95.5))
    );
    assert_eq!(row.allocator, "jemalloc");
}

/// As Grafana exports them: a series that starts later has no readings in the first rows.
#[test]
fn missing_cells_of_a_wide_table_are_no_readings() {
    for missing in ["", "null", "NaN", "N/A", "-"] {
        let table = format!(
            "Time,Pod 1,Pod 2\n1766757600,{missing},102400000\n1766757660,5120000,{missing}\n"
        );
        let rows = told(table.as_bytes(), &Wanted::default())
            .unwrap_or_else(|error| panic!("{missing}: {error}"));
        let expected = [
            ("Pod 2".to_owned(), THEN, 100_000.0 * KIB),
            ("Pod 1".to_owned(), THEN + 60.0, 5_000.0 * KIB),
        ];
        assert_eq!(rows, expected, "{missing}");
    }
}

#[test]
fn the_first_column_is_the_time_whatever_stands_between_the_fields() {
    let expected = [
        ("series".to_owned(), THEN, 100.5e6),
        ("series".to_owned(), THEN + 60.0, 100.125e6),
    ];
    for (first, second) in [
        ("2025-12-26 14:00:00", "2025-12-26 14:01:00"),
        ("26.12.2025 14:00:00", "26.12.2025 14:01:00"),
        ("26/12/2025 14:00:00", "26/12/2025 14:01:00"),
    ] {
        let points = format!("Zeit|Speicher (MB)\n{first}|100.5\n{second}|100.125\n");
        let commas = points.replace('|', ";").replace("100.", "100,");
        for table in [
            points.replace('|', ","),
            points.replace('|', "\t"),
            points,
            commas,
        ] {
            let rows = told(table.as_bytes(), &Wanted::default());
            assert_eq!(rows.as_deref(), Ok(&expected[..]), "{table}");
        }
    }
    let hosts =
        "when;host;Speicher (MB)\n2025-12-26 14:00:00;a;100,5\n2025-12-26 14:01:00;b;100,125\n";
    let rows = told(hosts.as_bytes(), &Wanted::default()).unwrap();
    assert_eq!(rows[0], ("a".to_owned(), THEN, 100.5e6));
}

#[test]
fn percentages_are_read_of_a_size_that_is_given() {
    let of = |value: Option<&str>| Wanted {
        unit: Some("%4GiB".to_owned()),
        value: value.map(str::to_owned),
        ..Wanted::default()
    };
    let expected = 0.25 * 4.0 * 1_048_576.0 * KIB;
    let unit = "time,value,unit\n0,25.0,Percent\n60,25.0,Percent\n";
    for (table, wanted) in [
        (
            "time,mem_percent\n0,25.0\n60,25.0\n",
            of(Some("mem_percent")),
        ),
        ("time,%MEM\n0,25.0%\n60,25.0\n", of(Some("%MEM"))),
        (unit, of(None)),
    ] {
        let rows = told(table.as_bytes(), &wanted).unwrap_or_else(|e| panic!("{table}: {e}"));
        assert_eq!(rows[0].2, expected, "{table}");
        let bare = Wanted {
            unit: None,
            ..wanted
        };
        let error = told(table.as_bytes(), &bare).expect_err(table);
        assert!(error.next.contains("--unit %4GiB"), "{table}: {error}");
    }
    // Of a few bytes no process is.
    for table in [
        "time,memory_used\n0,25.0\n60,25.5\n",
        "time,a,b\n0,25.0,1.5\n60,25,1.5\n",
    ] {
        let rows = told(table.as_bytes(), &Wanted::default()).unwrap();
        assert_eq!(rows[0].2, 25.0 * 1_048_576.0, "{table}");
    }
    // Thousands of bytes, with a comma.
    let table = b"time,rss\n0,\"100,464\"\n";
    assert_eq!(told(table, &Wanted::default()).unwrap()[0].2, 100_464.0);
    let unnamed = told(b"time,mem_percent\n0,25.0\n", &Wanted::default()).unwrap_err();
    assert!(unnamed.to_string().contains("--unit %4GiB"), "{unnamed}");
}

#[test]
fn seconds_under_a_finer_unit_are_noted() {
    let notes = |table: &str| {
        let rows = Rows::open(table.as_bytes(), &Wanted::default());
        rows.unwrap().notes().join("; ")
    };
    assert!(
        notes("Time [ms],rss_kib\n1766757600,1\n")
            .contains("a time in 1970, in the unit that Time [ms] says")
    );
    assert_eq!(notes("Time [ms],rss_kib\n1766757600000,1\n"), "");
    assert_eq!(notes("t_us,rss_kib\n0,1\n1766757600,1\n"), "");
}
