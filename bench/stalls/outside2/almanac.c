// sqlite3: a thread and a database connection per client; requests SELECT, `folio` writes every 2.6 s and computes
// 160 ms within its transaction. fault: roll (rollback journal, BEGIN EXCLUSIVE). Mended: WAL, BEGIN IMMEDIATE.
#include "ox.h"
#include <sqlite3.h>
static char path[512];
static sqlite3 *dial(void) {
    sqlite3 *d;
    if (sqlite3_open(path, &d))
        exit(7);
    sqlite3_busy_timeout(d, 3000);
    return d;
}
static void run(sqlite3 *d, const char *s) {
    char *e = 0;
    if (sqlite3_exec(d, s, 0, 0, &e))
        fprintf(stderr, "%s: %s\n", s, e);
}
NOINL void alm_digest_rows(double us) {
    EX_BURN_US(us);
    ex_sink++;
}
NOINL void alm_new_moon(sqlite3 *d) {
    run(d, ex_is("roll") ? "BEGIN EXCLUSIVE" : "BEGIN IMMEDIATE");
    run(d, "UPDATE tide SET v=v+1 WHERE k%40=3");
    alm_digest_rows(160000);
    run(d, "COMMIT");
}
NOINL void alm_lookup(sqlite3_stmt *s, uint64_t id) {
    sqlite3_bind_int(s, 1, id % 2000);
    while (sqlite3_step(s) == SQLITE_ROW)
        ex_sink += sqlite3_column_int(s, 0);
    if (sqlite3_reset(s))
        fprintf(stderr, "step failed\n");
}
static void *folio(void *v) {
    ex_name("folio");
    sqlite3 *d = dial();
    run(d, "PRAGMA synchronous=OFF");
    for (;;) {
        ex_sleep_ms(2450);
        alm_new_moon(d);
    }
    return v;
}
static void *leaf(void *v) {
    int fd = (long)v;
    ex_name("leaf");
    ex_nodelay(fd);
    sqlite3 *d = dial();
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(d, "SELECT v FROM tide WHERE k=?", -1, &s, 0))
        exit(8);
    struct exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        EX_BURN_US(O.work_us);
        alm_lookup(s, q.id);
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
    return 0;
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 140, 200, 8);
    int l = ex_listen(O.port);
    snprintf(path, sizeof path, "%s/tide.db", O.dir);
    char p[600];
    for (const char **x = (const char *[]){"", "-wal", "-shm", "-journal", 0}; *x; x++) {
        snprintf(p, sizeof p, "%s%s", path, *x);
        unlink(p);
    }
    sqlite3 *d = dial();
    run(d, ex_is("roll") ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL");
    run(d, "PRAGMA synchronous=OFF");
    run(d, "CREATE TABLE tide(k INTEGER PRIMARY KEY, v INTEGER, t TEXT)");
    run(d, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<2000) "
           "INSERT INTO tide SELECT i, i*7, hex(randomblob(40)) FROM n");
    sqlite3_close(d);
    ex_thread(folio, 0);
    ex_load("keep", 0, 0);
    for (;;)
        pthread_detach(ex_thread(leaf, (void *)(long)accept(l, 0, 0)));
}
