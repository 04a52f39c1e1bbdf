// Requests read a board under a std::recursive_mutex; every ninth also takes the spool's std::mutex while it has the
// board. Faults: lift (`plover` keeps the spool over 150 ms of O_DIRECT reads, every 2.7 s), press (over 150 ms of 1 MB
// writes with fdatasync). So: requests -> board, kept by another request -> spool, kept by plover -> disk. Mended: plover
// reads and writes before it takes the spool.
#include "tx.h"
#include <mutex>
static std::recursive_mutex board;
static std::mutex spool;
static uint64_t rows[512], tail;
static int big, out;
static char *page;
NOINL uint64_t corrie_lift(double ms) {
    uint64_t k = ex_direct_some(big, ms, page, 32768, 128 << 20);
    ex_sink += k;
    return k + 1;
}
NOINL uint64_t corrie_press(double ms) {
    double e = ex_now() + ms / 1e3;
    uint64_t n = 0;
    for (; ex_now() < e; n++) {
        if (pwrite(out, page, 1 << 20, (n % 48) << 20) < 0)
            break;
        fdatasync(out);
    }
    ex_sink += n;
    return n + 1;
}
static void *plover(void *v) {
    ex_name("plover");
    for (;;) {
        ex_sleep_ms(2550);
        if (ex_is("lift") || ex_is("press")) {
            std::lock_guard<std::mutex> g(spool);
            tail += ex_is("lift") ? corrie_lift(150) : corrie_press(150);
            continue;
        }
        uint64_t n = corrie_lift(150) + corrie_press(150);
        std::lock_guard<std::mutex> g(spool);
        tail += n;
    }
    return v;
}
NOINL void corrie_note(uint64_t id) {
    std::lock_guard<std::mutex> g(spool);
    tail = tail * 31 + id;
}
NOINL void corrie_visit(uint64_t id) {
    std::lock_guard<std::recursive_mutex> g(board);
    rows[id % 512] += id;
    EX_BURN_US(40);
    if (id % 9 == 0)
        corrie_note(id);
}
static void snipe(uint64_t id) {
    EX_BURN_US(O.work_us);
    corrie_visit(id);
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 180, 250, 10);
    ex_bigfile("corrie.big", 128);
    big = ex_file("corrie.big", O_RDONLY | O_DIRECT);
    out = ex_file("corrie.out", O_RDWR);
    page = (char *)aligned_alloc(4096, 1 << 20);
    memset(page, 3, 1 << 20);
    int l = ex_listen(O.port);
    ex_thread(plover, 0);
    ex_load("keep", 0, 0);
    tx_serve(l, "snipe", snipe);
}
