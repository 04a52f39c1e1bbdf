//! What other tools write, and the readings in it.

use crate::ImportError;
use crate::columns::Wanted;
use crate::rows::Rows;

/// Series, seconds, bytes.
pub(super) type Readings = Vec<(String, f64, f64)>;

pub(super) fn read_with(text: &str, wanted: &Wanted) -> Result<Readings, ImportError> {
    let mut rows = Rows::open(text.as_bytes(), wanted)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next_row()? {
        all.push((row.id, row.t_s, row.rss_bytes));
    }
    Ok(all)
}

pub(super) fn read(text: &str) -> Readings {
    read_with(text, &Wanted::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(super) fn of(all: &[(&str, f64, f64)]) -> Readings {
    let owned = |&(id, t_s, bytes): &(&str, f64, f64)| (id.to_owned(), t_s, bytes);
    all.iter().map(owned).collect()
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
const BEGIN: f64 = 1_700_000_000.0;

/// `sar -r 60` of sysstat 12, in the locales of Germany and of the United States.
#[test]
fn sar_says_what_the_machine_uses() {
    let names = "kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached  kbcommit   %commit";
    let begin = "Linux 6.1.0 (host) \t11/14/2023 \t_x86_64_\t(2 CPU)\n\n";
    let rest = "7000000  1000  5.0  20  30  40  4.0";
    let german = format!(
        "{begin}00:01:01    {names}\n00:02:01    {rest}\n00:03:01    {rest}\n\n00:03:30    LINUX RESTART\t(2 CPU)\n\n\
         00:04:01    {names}\n00:05:01    {rest}\nAverage:    {rest}\n"
    );
    // The fields are free, available, used.
    let german = german.replace("7000000  1000", "7000000  6000000  1000");
    let expected = of(&[
        ("series", 121.0, 1000.0 * KIB),
        ("series", 181.0, 1000.0 * KIB),
        ("series", 301.0, 1000.0 * KIB),
    ]);
    assert_eq!(read(&german), expected);
    let american = german
        .replace("00:0", "12:0")
        .replace(":01    ", ":01 AM    ");
    let american = american
        .replace("00:03:30", "12:03:30 AM")
        .replace("12:03:30    L", "12:03:30 AM  L");
    assert_eq!(read(&american), expected);
}

#[test]
fn sadf_says_it_in_csv_and_in_json() {
    let csv = "# hostname;interval;timestamp;kbmemfree;kbavail;kbmemused;%memused\n\
               web;60;2023-11-14 22:13:20 UTC;700;600;1000;5.0\nweb;60;2023-11-14 22:14:20 UTC;700;600;1010;5.0\n";
    let expected = [
        ("web", BEGIN, 1000.0 * KIB),
        ("web", BEGIN + 60.0, 1010.0 * KIB),
    ];
    assert_eq!(read(csv), of(&expected));
    let json = r#"{"sysstat": {"hosts": [{"nodename": "web", "machine": "x86_64", "number-of-cpus": 2, "statistics": [
        {"timestamp": {"date": "2023-11-14", "time": "22:13:20", "utc": 1, "interval": 60},
         "memory": {"memfree": 700, "avail": 600, "memused": 1000, "memused-percent": 5.0}},
        {"timestamp": {"date": "2023-11-14", "time": "22:14:20", "utc": 1, "interval": 60},
         "memory": {"memfree": 700, "avail": 600, "memused": 1010, "memused-percent": 5.0}}
    ]}]}}"#;
    let series: Readings = read(json);
    let unnamed: Vec<(f64, f64)> = series
        .iter()
        .map(|(_, t_s, bytes)| (*t_s, *bytes))
        .collect();
    assert_eq!(
        unnamed,
        [(BEGIN, 1000.0 * KIB), (BEGIN + 60.0, 1010.0 * KIB)]
    );
}

/// With the sequences that move the cursor of a terminal, as they are in a file too.
#[test]
fn docker_stats_has_cells_with_blanks_and_no_times() {
    let header = "CONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT     MEM %     NET I/O       BLOCK I/O   PIDS";
    let row = |name: &str, used: &str| {
        format!(
            "1a2b3c4d5e6f   {name}       0.50%     {used} / 1.944GiB   5.05%     1kB / 0B      0B / 0B     5\n"
        )
    };
    let turn = |web: &str, db: &str| {
        format!(
            "\u{1b}[2J\u{1b}[H{header}\n{}\u{1b}[K{}",
            row("web", web),
            row("db", db)
        )
    };
    let text = turn("100MiB", "1GiB") + &turn("101MiB", "1.5GiB");
    let wanted = Wanted {
        interval_s: Some(2.0),
        id: Some("NAME".into()),
        ..Wanted::default()
    };
    let expected = of(&[
        ("web", 0.0, 100.0 * MIB),
        ("db", 0.0, 1024.0 * MIB),
        ("web", 2.0, 101.0 * MIB),
        ("db", 2.0, 1536.0 * MIB),
    ]);
    assert_eq!(read_with(&text, &wanted).unwrap(), expected);
    let error = read_with(&text, &Wanted::default()).unwrap_err();
    assert!(error.to_string().contains("--interval"), "{error}");
    let json = r#"{"CPUPerc":"0.5%","ID":"1a2b","MemPerc":"5%","MemUsage":"100MiB / 1.9GiB","Name":"web","PIDs":"5"}"#;
    let json = format!("{json}\n{}\n", json.replace("100MiB", "101MiB"));
    assert_eq!(
        read_with(&json, &wanted_of("Name")).unwrap()[1],
        ("web".into(), 2.0, 101.0 * MIB)
    );
}

fn wanted_of(id: &str) -> Wanted {
    Wanted {
        interval_s: Some(2.0),
        id: Some(id.into()),
        ..Wanted::default()
    }
}

#[test]
fn tables_behind_the_time_they_were_made() {
    let ps = |rss: u32| {
        format!(
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
             root           7  0.0  0.1  10600  {rss} ?        Ss   14:27   0:00 /bin/sh -c sleep 9\n"
        )
    };
    let text = format!(
        "Tue Nov 14 22:13:20 UTC 2023\n{}Tue Nov 14 22:14:20 UTC 2023\n{}",
        ps(900),
        ps(910)
    );
    let expected = of(&[("7", BEGIN, 900.0 * KIB), ("7", BEGIN + 60.0, 910.0 * KIB)]);
    assert_eq!(read(&text), expected);
    let epochs = text.replace("Tue Nov 14 22:13:20 UTC 2023", "1700000000");
    let epochs = epochs.replace("Tue Nov 14 22:14:20 UTC 2023", "1700000060");
    assert_eq!(read(&epochs), expected);
}

/// `top -b -d 60` of procps 4: what is large has a letter.
#[test]
fn top_in_batch_mode() {
    let top = |time: &str, res: &str| {
        format!(
            "top - {time} up  1:02,  0 users,  load average: 0.29, 0.12, 0.04\n\
             Tasks:   1 total,   1 running,   0 sleeping,   0 stopped,   0 zombie\n\
             %Cpu(s):  1.0 us,  1.0 sy,  0.0 ni, 98.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st \n\
             MiB Mem :  24000.0 total,  22000.0 free,   1000.0 used,   1000.0 buff/cache     \n\
             MiB Swap:      0.0 total,      0.0 free,      0.0 used.  23000.0 avail Mem \n\n    \
             PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n     \
             7 root      20   0 2000000   {res}   8000 S   0.0   0.1   0:00.92 some service\n\n"
        )
    };
    let text = top("23:59:30", "900000") + &top("00:00:30", "1.5g");
    let expected = of(&[
        ("7", 86_370.0, 900_000.0 * KIB),
        ("7", 86_430.0, 1536.0 * MIB),
    ]);
    assert_eq!(read(&text), expected);
}

#[test]
fn readings_without_a_header() {
    let expected = of(&[
        ("series", BEGIN, 900.0 * KIB),
        ("series", BEGIN + 60.0, 910.0 * KIB),
        ("series", BEGIN + 120.0, 920.0 * KIB),
    ]);
    let status = "1700000000 VmRSS:\t     900 kB\n1700000060 VmRSS:\t     910 kB\n1700000120 VmRSS:\t     920 kB\n";
    assert_eq!(read(status), expected);
    let dated =
        "2023-11-14 22:13:20 900 KiB\n2023-11-14 22:14:20 910 KiB\n2023-11-14 22:15:20 920 KiB\n";
    assert_eq!(read(dated), expected);
    let kib = Wanted {
        unit: Some("KiB".into()),
        ..Wanted::default()
    };
    let csv = "1700000000,900\n1700000060,910\n1700000120,920\n";
    assert_eq!(read_with(csv, &kib).unwrap(), expected);
    let notes = Rows::open(csv.as_bytes(), &kib).unwrap().notes().to_vec();
    assert_eq!(notes, ["there is no header: read as a time and the memory"]);
    let broken = format!("{csv}1700000180,lots\n");
    let error = read_with(&broken, &kib).unwrap_err();
    assert_eq!((error.line, error.column), (4, 2), "{error}");
}

/// Exports of the consoles.
#[test]
fn values_under_a_name_of_their_own() {
    let datadog = "\"time\",\"host\",\"avg:system.mem.used{*}\"\n1700000000000,\"a\",1000\n1700000060000,\"a\",1010\n";
    assert_eq!(
        read(datadog),
        of(&[("a", BEGIN, 1000.0), ("a", BEGIN + 60.0, 1010.0)])
    );
    let cloudwatch =
        "Id,m1\nLabel,MemoryUtilized\n2023/11/14 22:13:20,1000\n2023/11/14 22:14:20,1010\n";
    assert_eq!(
        read(cloudwatch),
        of(&[("series", BEGIN, 1000.0), ("series", BEGIN + 60.0, 1010.0)])
    );
    let pandas = ",rss,threads\n2023-11-14 22:13:20,1000,7\n2023-11-14 22:14:20,1010,7\n";
    assert_eq!(
        read(pandas),
        of(&[("series", BEGIN, 1000.0), ("series", BEGIN + 60.0, 1010.0)])
    );
    let grafana = "\"Time\",\"web-1\"\n2023-11-14 22:13:20,1 KiB\n2023-11-14 22:14:20,1.5 KiB\n";
    assert_eq!(
        read(grafana),
        of(&[("series", BEGIN, KIB), ("series", BEGIN + 60.0, 1.5 * KIB)])
    );
    let unknown = "time,percent\n1700000000,12\n1700000060,13\n";
    assert!(
        read_with(unknown, &Wanted::default()).is_err(),
        "percents are no bytes"
    );
}

#[test]
fn documents_of_json() {
    let two = of(&[("series", BEGIN, 1000.0), ("series", BEGIN + 60.0, 1010.0)]);
    for text in [
        r#"[{"time": 1700000000, "rss": 1000}, {"time": 1700000060, "rss": 1010}]"#,
        "{\"time\": 1700000000,\n\"rss\": 1000}\n{\"time\": 1700000060,\n\"rss\": 1010}",
        r#"{"Label": "MemoryUtilized", "Datapoints": [
            {"Timestamp": "2023-11-14T22:13:20Z", "Average": 1000, "Unit": "Bytes"},
            {"Timestamp": "2023-11-14T22:14:20Z", "Average": 1010, "Unit": "Bytes"}]}"#,
        r#"{"MetricDataResults": [{"Id": "m1", "Timestamps": ["2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z"],
            "Values": [1000, 1010], "StatusCode": "Complete"}]}"#,
        r#"{"labels": ["time", "used"], "data": [[1700000000, 1000], [1700000060, 1010]]}"#,
        r#"[{"target": "web.mem", "datapoints": [[1000, 1700000000], [1010, 1700000060]]}]"#,
    ] {
        assert_eq!(read(text), two, "{text}");
    }
    let prometheus = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"job":"api","pod":"a"},"values":[[1700000000,"1000"],[1700000060,"1010"]]},
        {"metric":{"job":"api","pod":"b"},"values":[[1700000000,"5"]]}]}}"#;
    let influx = r#"{"results":[{"statement_id":0,"series":[
        {"name":"mem","tags":{"host":"a"},"columns":["time","value"],
         "values":[["2023-11-14T22:13:20Z",1000],["2023-11-14T22:14:20Z",1010]]},
        {"name":"mem","tags":{"host":"b"},"columns":["time","value"],"values":[["2023-11-14T22:13:20Z",5]]}]}]}"#;
    let datadog = r#"{"status":"ok","series":[
        {"metric":"mem","scope":"a","end":3,"pointlist":[[1700000000000.0,1000.0],[1700000060000.0,1010.0]]},
        {"metric":"mem","scope":"b","end":4,"pointlist":[[1700000000000.0,5.0]]}]}"#;
    let expected = of(&[
        ("a", BEGIN, 1000.0),
        ("a", BEGIN + 60.0, 1010.0),
        ("b", BEGIN, 5.0),
    ]);
    for text in [prometheus, influx, datadog] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn documents_that_are_none() {
    let told = |text: &str| read_with(text, &Wanted::default()).unwrap_err().to_string();
    assert!(told("[{\"time\": 1, \"rss\": ").contains("is the file complete"));
    assert!(told("[{\"name\": \"a\"}, {\"name\": \"b\"}]").contains("without readings"));
    let deep = "[".repeat(100_000);
    assert!(
        told(&deep).starts_with("line 1"),
        "as deep as that is refused"
    );
    let large = format!("[{}", "{\"a\":1},\n".repeat(4 << 20));
    assert!(told(&large).contains("more than 32 MiB"));
}

#[test]
fn vmstat_does_not_say_what_is_used() {
    let text = "procs -----------memory---------- ---swap--\n r  b   swpd   free   buff  cache   si   so\n \
                1  0  0  1  2  3  0  0\n";
    let error = read_with(text, &Wanted::default()).unwrap_err().to_string();
    assert!(error.contains("sar -r 60"), "{error}");
}

/// What is not memory, or not surely, is refused as before.
#[test]
fn other_measures_are_not_taken_for_memory() {
    let refused = |text: &str| {
        let read = read_with(text, &Wanted::default());
        assert!(read.is_err(), "{text}: {read:?}");
    };
    for name in [
        "latency_ms",
        "mem_pct",
        "MemoryUtilization",
        "connections",
        "cpu",
    ] {
        refused(&format!("timestamp,{name}\n1700000000,12\n1700000060,13\n"));
    }
    for line in ["VmSwap:", "VmSize:", "Threads:"] {
        refused(&format!("1700000000 {line} 7 kB\n").repeat(3));
    }
    refused("rss,pss\n523456789,400000000\n523456999,400000100\n");
    refused("# time cpu_percent\n1700000000 1\n1700000060 2\n1700000120 3\n");
    refused(
        r#"[{"time": 1700000000, "latency": {"value": 1}}, {"time": 1700000060, "latency": {"value": 2}}]"#,
    );
    let percents = r#"{"Label": "CPUUtilization", "Datapoints": [
        {"Timestamp": "2023-11-14T22:13:20Z", "Average": 45.2, "Unit": "Percent"},
        {"Timestamp": "2023-11-14T22:14:20Z", "Average": 45.3, "Unit": "Percent"}]}"#;
    let error = read_with(percents, &Wanted::default()).unwrap_err();
    assert!(error.next.contains("--unit %4GiB"), "{error}");
    let mixed = "time,metric,value,unit\n0,mem,4096,Bytes\n0,cpu,45.2,Percent\n";
    let mixed = read(mixed);
    assert!(mixed[0].2 == 4096.0 && mixed[1].2.is_nan(), "{mixed:?}");
}

#[test]
fn a_commented_header_of_two_columns_says_the_unit() {
    let text = "# time rss_kib\n1700000000 900\n1700000060 910\n1700000120 920\n";
    assert_eq!(read(text)[0], ("series".into(), BEGIN, 900.0 * KIB));
}

/// All lines of a wide table are one interval apart, whatever cells are empty.
#[test]
fn a_wide_table_without_times() {
    let wanted = Wanted {
        interval_s: Some(10.0),
        unit: Some("MiB".into()),
        ..Wanted::default()
    };
    let text = "api,web,db\n100,200,300\n101,,301\n102,202,302\n";
    let expected = of(&[
        ("api", 0.0, 100.0 * MIB),
        ("web", 0.0, 200.0 * MIB),
        ("db", 0.0, 300.0 * MIB),
        ("api", 10.0, 101.0 * MIB),
        ("db", 10.0, 301.0 * MIB),
        ("api", 20.0, 102.0 * MIB),
        ("web", 20.0, 202.0 * MIB),
        ("db", 20.0, 302.0 * MIB),
    ]);
    assert_eq!(read_with(text, &wanted).unwrap(), expected);
}

#[test]
fn large_values_that_rise_are_no_times_and_numbers_distinguish_where_nothing_else_does() {
    let graphite =
        r#"[{"target": "web", "datapoints": [[723000000, 1700000000], [724000000, 1700000060]]}]"#;
    let expected = of(&[("series", BEGIN, 723e6), ("series", BEGIN + 60.0, 724e6)]);
    assert_eq!(read(graphite), expected);
    let workers = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"job":"api","worker":"0"},"values":[[1700000000,"1000"],[1700000060,"1010"]]},
        {"metric":{"job":"api","worker":"1"},"values":[[1700000000,"5"]]}]}}"#;
    let expected = of(&[
        ("0", BEGIN, 1000.0),
        ("0", BEGIN + 60.0, 1010.0),
        ("1", BEGIN, 5.0),
    ]);
    assert_eq!(read(workers), expected);
    let alike = r#"[{"values":[[1700000000,1]]},{"values":[[1700000000,2]]}]"#;
    let ids: Vec<String> = read(alike).into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(ids, ["#0", "#1"]);
    let many: Vec<String> = (0..6_000)
        .map(|at| format!("{{\"time\":1700000000,\"k{at}\":1}}"))
        .collect();
    let error = read_with(&format!("[{}]", many.join(",")), &Wanted::default()).unwrap_err();
    assert!(error.to_string().contains("are no table"), "{error}");
}
