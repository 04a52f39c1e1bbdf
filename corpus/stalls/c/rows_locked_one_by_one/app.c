// A table whose rows are locked one by one, with one pthread mutex: a request reads sixty rows and takes it sixty times.
// Every 2.5 s a thread exports 700 rows.
// --fault format: it formats each row (0.5 ms of CPU) with the mutex, so a request waits some sixty times for less than a
// millisecond each. Healthy: each row is formatted without it.
#include "../../common/service.h"

enum { ROWS = 4096, READ = 60, EXPORTED = 700 };
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rows[ROWS];

NOINLINE void format_row(int row) {
    burn_us(500);
    rows[row % ROWS]++;
}

NOINLINE uint64_t read_row(uint64_t row) {
    pthread_mutex_lock(&table);
    uint64_t value = rows[row % ROWS];
    pthread_mutex_unlock(&table);
    burn_us(25);
    return value;
}

NOINLINE uint64_t answer_query(uint64_t id) {
    uint64_t sum = 0;
    for (int i = 0; i < READ; i++)
        sum += read_row(id + i * 7);
    return sum;
}

NOINLINE void export_rows(void) {
    bool locked = is_variant("format");
    for (int row = 0; row < EXPORTED; row++) {
        pthread_mutex_lock(&table);
        if (locked)
            format_row(row);
        pthread_mutex_unlock(&table);
        if (!locked)
            format_row(row);
        burn_us(20);
    }
}

static void *export_now_and_then(void *unused) {
    name_thread("exporter");
    for (;;) {
        sleep_ms(2500);
        export_rows();
    }
    return unused;
}

static void *serve_connection(void *connection) {
    name_thread("session");
    int fd = (int)(intptr_t)connection;
    struct request request;
    while (read_request(fd, &request)) {
        use_result(answer_query(request.id));
        send_answer(fd, &request);
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 100, 150, 8);
    int listener = listen_on(settings.port);
    start_thread(export_now_and_then, 0);
    start_load("keep", 0, 0);
    for (;;) {
        int fd = accept_connection(listener);
        if (fd >= 0)
            start_thread(serve_connection, (void *)(intptr_t)fd);
    }
}
