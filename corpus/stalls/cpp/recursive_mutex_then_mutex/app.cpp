// Requests read a board under a std::recursive_mutex; each ninth also takes the spool's std::mutex while it has the
// board. Every ~2.7 s a spooler takes the spool. --fault read: over 150 ms of O_DIRECT reads. --fault write: over 150
// ms of 1 MiB writes with fdatasync. So requests wait for another request, and that one for the spooler. Healthy: the
// spooler reads and writes before it takes the spool.
#include "../../common/service.h"
#include <mutex>

static const size_t BLOCK = 32768, PAGE = 1 << 20, BACKLOG_MIB = 128;
static std::recursive_mutex board;
static std::mutex spool;
static uint64_t rows[512], tail;
static int backlog_file, spool_file;
static char *page;

NOINLINE uint64_t load_backlog(double ms) {
    uint64_t sum = read_direct_for_ms(backlog_file, ms, page, BLOCK, BACKLOG_MIB << 20);
    use_result(sum);
    return sum + 1;
}

NOINLINE uint64_t write_spool(double ms) {
    double end = now_s() + ms / 1e3;
    uint64_t n = 0;
    for (; now_s() < end; n++) {
        if (pwrite(spool_file, page, PAGE, n % 48 * PAGE) < 0)
            break;
        fdatasync(spool_file);
    }
    use_result(n);
    return n + 1;
}

static void *run_spooler(void *unused) {
    name_thread("spooler");
    bool reads = is_variant("read"), writes = is_variant("write");
    for (;;) {
        sleep_ms(2550);
        uint64_t count = reads || writes ? 0 : load_backlog(150) + write_spool(150);
        std::lock_guard<std::mutex> guard(spool);
        if (reads)
            count = load_backlog(150);
        if (writes)
            count = write_spool(150);
        tail += count;
    }
    return unused;
}

NOINLINE void note_visit(uint64_t id) {
    std::lock_guard<std::mutex> guard(spool);
    tail = tail * 31 + id;
}

NOINLINE void visit_board(uint64_t id) {
    std::lock_guard<std::recursive_mutex> guard(board);
    rows[id % 512] += id;
    burn_us(40);
    if (id % 9 == 0)
        note_visit(id);
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    visit_board(id);
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 180, 250, 10);
    make_big_file("backlog", BACKLOG_MIB);
    backlog_file = open_file("backlog", O_RDONLY | O_DIRECT);
    spool_file = open_file("spool", O_RDWR);
    page = (char *)aligned_alloc(4096, PAGE);
    memset(page, 3, PAGE);
    int listener = listen_on(settings.port);
    start_thread(run_spooler, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
