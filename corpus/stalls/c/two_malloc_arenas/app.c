// glibc's malloc with two arenas: requests allocate some KB. A builder makes ~500 MB of 12 KB blocks and frees 7 of 8.
// --fault trim: every ~3 s one request ends with malloc_trim(0), as after a large job; all who allocate from that arena
// wait. Healthy: the builder has a mapping of its own and returns its pages itself.
#include "../../common/service.h"
#include <malloc.h>

enum { BLOCKS = 42000, BLOCK = 12288, USED = 12240, GROUP = 84 };
static char *blocks[BLOCKS];
static volatile int trim_due;

NOINLINE int finish_large_job(void) {
    int result = malloc_trim(0);
    use_result(result);
    return result + 1;
}

static void fill_blocks(char *own) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = own ? own + (size_t)i * BLOCK : malloc(USED);
        for (int j = 16; j < USED; j += 4096)
            blocks[i][j] = i;
        if (i % 100 == 0)
            sleep_ms(2);
    }
}

// Frees each eighth block, or all the others.
static void free_blocks(bool each_eighth, int pause_every) {
    for (int i = 0; i < BLOCKS; i++) {
        if ((i % 8 == 0) != each_eighth)
            continue;
        free(blocks[i]);
        if (i % pause_every == !each_eighth)
            sleep_ms(1);
    }
}

static void *build_reports(void *unused) {
    name_thread("report-builder");
    size_t size = (size_t)BLOCKS * BLOCK;
    char *own = is_variant("trim") ? 0 : mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (;;) {
        double start = now_s();
        fill_blocks(own);
        if (!own)
            free_blocks(false, 200);
        double rest_s = start + 2.6 - now_s();
        if (rest_s > 0)
            sleep_ms(rest_s * 1e3);
        for (int i = 0; own && i < BLOCKS; i += GROUP)
            madvise(own + (size_t)i * BLOCK, GROUP * BLOCK, MADV_DONTNEED);
        trim_due = !own;
        sleep_ms(400);
        if (!own)
            free_blocks(true, 400);
    }
    return unused;
}

NOINLINE void answer_request(uint64_t id) {
    char *parts[5];
    for (int i = 0; i < 5; i++) {
        size_t size = 2500 + (id * 41 + i * 3331) % 16000;
        parts[i] = malloc(size);
        memset(parts[i], i, size / 4);
    }
    burn_us(settings.work_us);
    for (int i = 0; i < 5; i++)
        free(parts[i]);
    if (trim_due && __atomic_exchange_n(&trim_due, 0, __ATOMIC_ACQ_REL))
        finish_large_job();
}

int main(int argc, char **argv) {
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 2047 << 20);
    mallopt(M_TOP_PAD, 32 << 20);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    read_settings(argc, argv, 200, 250, 8);
    int listener = listen_on(settings.port);
    start_thread(build_reports, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", answer_request);
}
