// Readings in SQLite: a thread and a database connection for each client; a request selects one row. Every 2.45 s a
// writer updates rows and computes 160 ms within its transaction. --fault exclusive: rollback journal and BEGIN
// EXCLUSIVE, so that readers wait in SQLite's busy handler. Healthy: write-ahead log and BEGIN IMMEDIATE.
#include "../../common/service.h"
#include <sqlite3.h>

static char path[512];

static sqlite3 *open_database(void) {
    sqlite3 *database;
    if (sqlite3_open(path, &database))
        exit(7);
    sqlite3_busy_timeout(database, 3000);
    return database;
}

static void run_statement(sqlite3 *database, const char *text) {
    char *error = 0;
    if (sqlite3_exec(database, text, 0, 0, &error))
        fprintf(stderr, "%s: %s\n", text, error);
}

NOINLINE void digest_rows(double us) {
    burn_us(us);
    use_result(1);
}

NOINLINE void update_readings(sqlite3 *database) {
    run_statement(database, is_variant("exclusive") ? "BEGIN EXCLUSIVE" : "BEGIN IMMEDIATE");
    run_statement(database, "UPDATE readings SET v=v+1 WHERE k%40=3");
    digest_rows(160000);
    run_statement(database, "COMMIT");
}

NOINLINE void lookup_reading(sqlite3_stmt *select, uint64_t id) {
    sqlite3_bind_int(select, 1, id % 2000);
    while (sqlite3_step(select) == SQLITE_ROW)
        use_result(sqlite3_column_int(select, 0));
    if (sqlite3_reset(select))
        fprintf(stderr, "step failed\n");
}

static void *write_readings(void *unused) {
    name_thread("writer");
    sqlite3 *database = open_database();
    run_statement(database, "PRAGMA synchronous=OFF");
    for (;;) {
        sleep_ms(2450);
        update_readings(database);
    }
    return unused;
}

static void *serve_client(void *argument) {
    int fd = (long)argument;
    name_thread("connection");
    sqlite3_stmt *select;
    if (sqlite3_prepare_v2(open_database(), "SELECT v FROM readings WHERE k=?", -1, &select, 0))
        exit(8);
    struct request request;
    while (read_request(fd, &request)) {
        burn_us(settings.work_us);
        lookup_reading(select, request.id);
        if (!send_answer(fd, &request))
            break;
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 140, 200, 8);
    int listener = listen_on(settings.port);
    snprintf(path, sizeof path, "%s/readings.db", settings.dir);
    sqlite3 *database = open_database();
    run_statement(database, is_variant("exclusive") ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL");
    run_statement(database, "PRAGMA synchronous=OFF");
    run_statement(database, "DROP TABLE IF EXISTS readings");
    run_statement(database, "CREATE TABLE readings(k INTEGER PRIMARY KEY, v INTEGER, t TEXT)");
    run_statement(database, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<2000) "
                            "INSERT INTO readings SELECT i, i*7, hex(randomblob(40)) FROM n");
    sqlite3_close(database);
    start_thread(write_readings, 0);
    start_load("keep", 0, 0);
    for (;;)
        pthread_detach(start_thread(serve_client, (void *)(long)accept_connection(listener)));
}
