// A map under std::shared_mutex on glibc's malloc with one arena, a thread for each connection. --fault trim: every 3 s
// a housekeeper calls malloc_trim(0) after it freed 7 of 8 of many blocks. --fault unmap: it unmaps 900 MB, and
// requests map and unmap 256 KB each. --fault compute: it computes 120 ms with the mutex exclusively. Healthy: the
// blocks are freed without a trim, and requests map and unmap.
#include "../../common/service.h"
#include <malloc.h>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static std::shared_mutex mutex;
static std::unordered_map<uint64_t, std::string> entries;
static std::vector<void *> blocks;

static char *map_memory(size_t size) {
    return (char *)mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

NOINLINE int shrink_pool() {
    int result = malloc_trim(0);
    use_result(result);
    return result + 1;
}

NOINLINE int drop_region(void *region, size_t size) {
    int result = munmap(region, size);
    use_result(result);
    return result + 1;
}

NOINLINE void rehash_buckets(double us) {
    use_result(spin(us * rounds_per_us, 77));
}

NOINLINE void answer_lookup(uint64_t id) {
    char *parts[6];
    for (int i = 0; i < 6; i++) {
        parts[i] = (char *)malloc(2200 + 300 * ((id + i) % 9));
        parts[i][0] = id;
        parts[i][2100] = 1;
    }
    if (is_variant("unmap") || is_variant("none")) {
        char *scratch = map_memory(256 << 10);
        scratch[0] = 1;
        scratch[8192] = 2;
        munmap(scratch, 256 << 10);
    }
    {
        std::shared_lock<std::shared_mutex> guard(mutex);
        auto found = entries.find(id % 5000);
        if (found != entries.end())
            use_result(found->second.size());
    }
    burn_us(settings.work_us);
    for (char *part : parts)
        free(part);
}

static void sleep_until(double end_s) {
    double rest_s = end_s - now_s();
    if (rest_s > 0)
        sleep_ms(rest_s * 1e3);
}

static void unmap_a_large_region() {
    double start = now_s();
    size_t size = 900u << 20;
    char *region = map_memory(size);
    madvise(region, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += 4096) {
        region[i] = 1;
        if (i % (4 << 20) == 0)
            sleep_ms(3);
    }
    sleep_until(start + 3.0);
    drop_region(region, size);
}

static void allocate_and_free_blocks() {
    double start = now_s();
    blocks.reserve(120000);
    for (int i = 0; i < 110000; i++) {
        void *block = malloc(3000);
        memset(block, 1, 3000);
        blocks.push_back(block);
        if (i % 2000 == 0)
            sleep_ms(10);
    }
    size_t kept = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
        if (i % 8)
            free(blocks[i]);
        else
            blocks[kept++] = blocks[i];
        if (i % 2000 == 0)
            sleep_ms(4);
    }
    blocks.resize(kept);
    sleep_until(start + 3.0);
    if (is_variant("trim"))
        shrink_pool();
    for (size_t i = 0; i < blocks.size(); i++) {
        free(blocks[i]);
        if (i % 1000 == 0)
            sleep_ms(2);
    }
    blocks.clear();
}

static void keep_house() {
    name_thread("housekeeper");
    for (;;) {
        if (is_variant("compute")) {
            sleep_ms(2400);
            std::unique_lock<std::shared_mutex> guard(mutex);
            rehash_buckets(120000);
        } else if (is_variant("unmap")) {
            unmap_a_large_region();
        } else {
            allocate_and_free_blocks();
        }
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 200, 250, 8);
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 2047 << 20);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (int i = 0; i < 5000; i++)
        entries[i] = std::string(100 + i % 50, 'x');
    int listener = listen_on(settings.port);
    std::thread(keep_house).detach();
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", answer_lookup);
}
