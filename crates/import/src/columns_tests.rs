//! Headers as people have them.

use super::*;

fn names(line: &str) -> Vec<String> {
    line.split(',').map(str::to_owned).collect()
}

fn header(line: &str) -> Columns {
    parse_header(&names(line), &Wanted::default(), false).unwrap_or_else(|e| panic!("{line}: {e}"))
}

#[test]
fn names_say_columns_and_units() {
    let c = header("id,t_s,rss_kib");
    assert_eq!(
        (c.id, c.time.place, c.value, c.value_factor),
        (vec![0], 1, 2, 1024.0)
    );
    let c = header("arm,process,t_ms,rss_mib");
    assert_eq!(
        (c.arm, c.id, c.time.factor, c.value_factor),
        (Some(0), vec![1], 1e-3, 1_048_576.0)
    );
    let wanted = Wanted {
        value: Some("mem".to_owned()),
        unit: Some("kB".to_owned()),
        ..Wanted::default()
    };
    let c = parse_header(&names("time,mem"), &wanted, false).unwrap();
    assert_eq!((c.id, c.value, c.value_factor), (vec![], 1, 1000.0));
}

#[test]
fn other_names_of_the_same_things() {
    for (line, value, factor) in [
        ("Time,RSS (MiB)", 1, 1_048_576.0),
        ("TIME,PID,rss [kB]", 2, 1024.0),
        ("timestamp,Memory Usage", 1, 1.0),
        ("Timestamp,name,mem_used_mb", 2, 1e6),
        ("ts_ms,VmSize,VmRSS", 2, 1024.0),
        ("time,vsz,rss", 2, 1024.0),
        ("time,vms,rss", 2, 1.0),
        ("time,%MEM,RSS", 2, 1.0),
        ("time,mem_total_kb,mem_percent,memory_usage_bytes", 3, 1.0),
        ("datetime,memoryUsedMiB", 1, 1_048_576.0),
    ] {
        let c = header(line);
        assert_eq!(
            (c.time.place, c.value, c.value_factor),
            (0, value, factor),
            "{line}"
        );
    }
    for (line, factor) in [
        ("t_min,rss_kb", 60.0),
        ("hours,rss_kb", 3600.0),
        ("epoch_ns,rss_kb", 1e-9),
    ] {
        assert_eq!(header(line).time.factor, factor, "{line}");
    }
}

#[test]
fn who_was_read_where_a_name_is_not_enough() {
    assert_eq!(header("host,pid,time,rss_kb").id, [0, 1]);
    assert_eq!(header("pod,container,time,rss_kb").id, [0, 1]);
    assert_eq!(header("instance,id,time,rss_kb").id, [1]);
    assert_eq!(header("host,time,rss_kb").id, [0]);
    assert_eq!(header("time,name,metric,value").id, [1, 2]);
    let wanted = Wanted {
        id: Some("zone,unit".to_owned()),
        ..Wanted::default()
    };
    assert_eq!(
        parse_header(&names("zone,unit,t,rss_kb"), &wanted, false)
            .unwrap()
            .id,
        [0, 1]
    );
}

#[test]
fn in_a_table_of_ps_time_is_no_time() {
    let of = |line: &str| parse_header(&names(line), &Wanted::default(), true);
    assert!(
        of("PID,RSS,TIME,CMD")
            .unwrap_err()
            .what
            .contains("no time column")
    );
    let c = of("Time,UID,PID,minflt/s,majflt/s,VSZ,RSS,%MEM,Command").unwrap();
    assert_eq!(
        (c.time.place, c.id, c.value, c.value_factor),
        (0, vec![2], 6, 1024.0)
    );
    assert_eq!(
        header("date,time,rss_kb").time,
        Time {
            place: 1,
            date: Some(0),
            factor: 1.0,
            ..Time::default()
        }
    );
}

#[test]
fn wide_and_long_are_told_apart() {
    let of = |line: &str| parse_wide(&names(line), &Wanted::default());
    assert_eq!(of("t_s,api-1,api-2").unwrap().wide, [(1, 1.0), (2, 1.0)]);
    let c = of("Time,api-1 (MiB),web-b (MiB)").unwrap();
    assert_eq!(
        (c.wide, c.unit_said),
        (vec![(1, 1_048_576.0), (2, 1_048_576.0)], true)
    );
    assert_eq!(of("time,web-a,web-b").unwrap().wide, [(1, 1.0), (2, 1.0)]);
    for long in [
        "id,t_s",
        "id,t_s,mem1,mem2",
        "time,api-1",
        "time,cpu,disk",
        "time,a,%MEM",
        "t_s,a,a",
        "a,b,c",
    ] {
        assert!(of(long).is_err(), "{long}");
    }
    let forced = Wanted {
        wide: true,
        unit: Some("KiB".to_owned()),
        ..Wanted::default()
    };
    assert_eq!(
        parse_wide(&names("time,cpu"), &forced).unwrap().wide,
        [(1, 1024.0)]
    );
}

#[test]
fn facts_beside_the_readings() {
    let c = header(
        "id,t_s,rss_kib,cpu_s,requests_total,lazyfree_kib,AnonHugePages_kB,start_time,allocator",
    );
    let facts = Facts {
        cpu: Some((3, 1.0)),
        requests: Some(4),
        lazy_free: Some((5, 1024.0)),
        huge_pages: Some((6, 1024.0)),
        start: Some(7),
        allocator: Some(8),
    };
    assert_eq!(c.facts, facts);
    assert_eq!(header("t_s,rss_kib,cpu").facts, Facts::default());
    assert_eq!(header("t_s,VmRSS,VmHWM").hwm, Some((2, 1.0)));
}

#[test]
fn what_is_missing_is_said() {
    let e = parse_header(&names("id,t_s"), &Wanted::default(), false).unwrap_err();
    assert_eq!(
        (e.line, e.next.as_str()),
        (1, "name it with --value-column")
    );
    let many: Vec<String> = (0..10_000).map(|i| format!("c{i}")).collect();
    let e = parse_header(&many, &Wanted::default(), false).unwrap_err();
    assert!(e.what.contains("10000 columns"), "{e}");
}
