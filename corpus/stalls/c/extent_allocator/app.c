// A service with an allocator of its own: 256 KiB extents of one mapping in two lists (used before; never, or returned
// to the kernel) under one pthread mutex. A request takes three and puts them back; a builder takes ~900 MB, fills it
// and puts it back. --fault purge: every ~3 s it returns free extents to the kernel (MADV_DONTNEED) with the mutex.
// Healthy: it takes them out of the list first.
#include "../../common/service.h"

enum { EXTENTS = 4000, EXTENT = 256 << 10 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *base;
static int used_before[EXTENTS], used_before_count, untouched[EXTENTS], untouched_count;

static char *extent_at(int extent) {
    return base + (size_t)extent * EXTENT;
}

static int take_extent(void) {
    pthread_mutex_lock(&mutex);
    int extent = used_before_count ? used_before[--used_before_count]
                 : untouched_count ? untouched[--untouched_count]
                                   : -1;
    pthread_mutex_unlock(&mutex);
    return extent;
}

static void put_extent(int extent) {
    pthread_mutex_lock(&mutex);
    used_before[used_before_count++] = extent;
    pthread_mutex_unlock(&mutex);
}

NOINLINE int return_extents(int *extents, int count) {
    int result = 0;
    for (int i = 0; i < count; i++)
        result += madvise(extent_at(extents[i]), EXTENT, MADV_DONTNEED);
    use_result(result);
    return result + 1;
}

NOINLINE void clean_free_extents(void) {
    static int taken[EXTENTS];
    int count = 0;
    pthread_mutex_lock(&mutex);
    if (is_variant("purge")) {
        return_extents(used_before, used_before_count);
        while (used_before_count)
            untouched[untouched_count++] = used_before[--used_before_count];
        pthread_mutex_unlock(&mutex);
        return;
    }
    while (used_before_count > 16)
        taken[count++] = used_before[--used_before_count];
    pthread_mutex_unlock(&mutex);
    return_extents(taken, count);
    pthread_mutex_lock(&mutex);
    while (count)
        untouched[untouched_count++] = taken[--count];
    pthread_mutex_unlock(&mutex);
}

static void *build_batches(void *unused) {
    static int mine[EXTENTS];
    name_thread("batch-builder");
    for (;;) {
        int count = 0, extent;
        double start = now_s();
        while (count < 3600 && (extent = take_extent()) >= 0) {
            mine[count++] = extent;
            for (int i = 0; i < EXTENT; i += 4096)
                extent_at(extent)[i] = count;
            if (count % 4 == 0)
                sleep_ms(1);
        }
        while (count)
            put_extent(mine[--count]);
        double rest_s = start + 2.8 - now_s();
        if (rest_s > 0)
            sleep_ms(rest_s * 1e3);
        clean_free_extents();
    }
    return unused;
}

NOINLINE void handle_request(uint64_t id) {
    int extents[3];
    for (int i = 0; i < 3; i++)
        if ((extents[i] = take_extent()) >= 0)
            extent_at(extents[i])[id % 3 * 4096] = id;
    burn_us(settings.work_us);
    for (int i = 0; i < 3; i++)
        if (extents[i] >= 0)
            put_extent(extents[i]);
}

int main(int argc, char **argv) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    read_settings(argc, argv, 180, 250, 8);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    base = mmap(0, (size_t)EXTENTS * EXTENT, PROT_READ | PROT_WRITE, flags, -1, 0);
    for (int i = 0; i < EXTENTS; i++)
        untouched[untouched_count++] = i;
    int listener = listen_on(settings.port);
    start_thread(build_batches, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
