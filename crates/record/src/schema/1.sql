-- Schema 1: one row per sample, times in full.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE process (
    id                 INTEGER PRIMARY KEY,
    arm                TEXT    NOT NULL,
    replica            INTEGER NOT NULL,
    incarnation        INTEGER NOT NULL,
    role               TEXT    NOT NULL,
    pid                INTEGER NOT NULL,
    start_ticks        INTEGER NOT NULL,
    started            INTEGER NOT NULL,
    ended              INTEGER,
    exit               TEXT,
    command            TEXT    NOT NULL,
    metrics_url        TEXT,
    load_lines         TEXT,
    cgroup             TEXT,
    expected_allocator TEXT
) STRICT;

CREATE TABLE metric (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE sample (
    process INTEGER NOT NULL,
    time    INTEGER NOT NULL,
    metric  INTEGER NOT NULL,
    value   REAL    NOT NULL
) STRICT;

CREATE TABLE fact (
    process    INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    valid_from INTEGER NOT NULL,
    value      TEXT    NOT NULL,
    PRIMARY KEY (process, key, valid_from)
) STRICT, WITHOUT ROWID;

CREATE TABLE histogram (
    id        INTEGER PRIMARY KEY,
    process   INTEGER NOT NULL,
    metric    INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    "end"     INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    errors    INTEGER NOT NULL,
    dropped   INTEGER NOT NULL,
    histogram BLOB    NOT NULL
) STRICT;

CREATE TABLE event (
    id      INTEGER PRIMARY KEY,
    time    INTEGER NOT NULL,
    process INTEGER,
    kind    TEXT    NOT NULL,
    words   TEXT    NOT NULL
) STRICT;

CREATE TABLE finding (
    id        INTEGER PRIMARY KEY,
    time      INTEGER NOT NULL,
    source    TEXT    NOT NULL,
    what      TEXT    NOT NULL,
    processes TEXT    NOT NULL,
    effect    TEXT    NOT NULL
) STRICT;
