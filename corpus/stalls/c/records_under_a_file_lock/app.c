// A thread for each connection, each with its own open file; a request writes a record under a lock of the file.
// --fault own: OFD locks (fcntl); a scanner thread holds one over 150 ms of O_DIRECT reads, every 2.65 s. --fault
// other: flock(); another process holds it over 170 ms of fsyncs. Healthy: flock(); neither of the two takes that
// file's lock.
#include "../../common/service.h"
#include <sys/file.h>

enum { BLOCK = 4096, COLUMNS_MIB = 64 };
static int columns_file;
static uint64_t sum;

INLINE void set_lock(int fd, bool locked) {
    struct flock range = {.l_type = locked ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET};
    if (is_variant("own"))
        while (fcntl(fd, locked ? F_OFD_SETLKW : F_OFD_SETLK, &range) && errno == EINTR)
            ;
    else
        while (flock(fd, locked ? LOCK_EX : LOCK_UN) && errno == EINTR)
            ;
}

NOINLINE void scan_columns(void *block) {
    sum += read_direct_for_ms(columns_file, 150, block, BLOCK, COLUMNS_MIB << 20);
}

NOINLINE void store_record(int fd, struct request *request) {
    set_lock(fd, true);
    if (pwrite(fd, request, sizeof *request, request->id % 4096 * sizeof *request) < 0)
        sum++;
    set_lock(fd, false);
}

static void *scan_all_columns(void *unused) {
    name_thread("column-scanner");
    int fd = open_file("records", O_RDWR);
    void *block = aligned_alloc(BLOCK, BLOCK);
    for (;;) {
        sleep_ms(2650);
        if (is_variant("own"))
            set_lock(fd, true);
        scan_columns(block);
        if (is_variant("own"))
            set_lock(fd, false);
    }
    return unused;
}

static void *serve_client(void *argument) {
    int connection = (long)argument, fd = open_file("records", O_RDWR);
    name_thread("connection");
    struct request request;
    while (read_request(connection, &request)) {
        burn_us(settings.work_us);
        store_record(fd, &request);
        if (!send_answer(connection, &request))
            break;
    }
    close(connection);
    close(fd);
    return 0;
}

static void start_locking_process(const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", settings.dir, file);
    const char *arguments[] = {"load", "lock-holder", path, "170", "2700", 0};
    start_helper(arguments, 0, 0);
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 140, 300, 10);
    int listener = listen_on(settings.port);
    make_big_file("columns", COLUMNS_MIB);
    columns_file = open_file("columns", O_RDONLY | O_DIRECT);
    close(open_file("records", O_RDWR));
    close(open_file("elsewhere", O_RDWR));
    start_locking_process(is_variant("other") ? "records" : "elsewhere");
    start_thread(scan_all_columns, 0);
    start_load("keep", 0, 0);
    for (;;)
        pthread_detach(start_thread(serve_client, (void *)(long)accept_connection(listener)));
}
