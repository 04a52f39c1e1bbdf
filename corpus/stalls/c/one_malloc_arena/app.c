// glibc's malloc with one arena: requests allocate some KB. A thread builds a snapshot of ~1.6 GB in 256 KiB blocks and
// frees it. --fault trim: with a small M_TRIM_THRESHOLD, so that the last free() returns all of it to the kernel under
// the arena's lock. Healthy: with a large one, so that the heap keeps it.
#include "../../common/service.h"
#include <limits.h>
#include <malloc.h>

enum { BLOCKS = 6400, BLOCK = 256 << 10 };
static char *blocks[BLOCKS];

NOINLINE void drop_snapshot(void) {
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    use_result(1);
}

static void *make_snapshots(void *unused) {
    name_thread("snapshotter");
    for (;;) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(BLOCK);
            for (int j = 0; j < BLOCK; j += 4096)
                blocks[i][j] = i;
            if (i % 4 == 0)
                sleep_ms(0.5);
        }
        sleep_ms(300);
        drop_snapshot();
    }
    return unused;
}

NOINLINE void build_reply(uint64_t id) {
    char *parts[4];
    for (int i = 0; i < 4; i++) {
        size_t size = 3000 + (id * 37 + i * 5333) % 20000;
        parts[i] = malloc(size);
        memset(parts[i], i, size / 4);
    }
    burn_us(settings.work_us);
    for (int i = 0; i < 4; i++)
        free(parts[i]);
}

int main(int argc, char **argv) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TOP_PAD, 8 << 20);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    read_settings(argc, argv, 200, 250, 8);
    mallopt(M_TRIM_THRESHOLD, is_variant("trim") ? 32 << 20 : INT_MAX);
    int listener = listen_on(settings.port);
    start_thread(make_snapshots, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", build_reply);
}
