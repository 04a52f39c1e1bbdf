// C++ shared_mutex map, thread per connection, one malloc arena. faults: purge-trim, purge-unmap, wlock-calc
#include "ex.h"
#include <malloc.h>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
static std::shared_mutex mapmu;
static std::unordered_map<uint64_t, std::string> store;
static std::vector<void *> pool;
NOINL int gault_purge_pool() {
    int r = malloc_trim(0);
    ex_sink += r;
    return r + 1;
}
NOINL int gault_drop_region(void *p, size_t n) {
    int r = munmap(p, n);
    ex_sink += r;
    return r + 1;
}
NOINL void gault_rehash_all(double us) {
    uint64_t n = us * ex_ipu, x = 77;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    ex_sink += x;
}
NOINL void gault_answer(uint64_t id) {
    char *b[6];
    for (int i = 0; i < 6; i++) {
        b[i] = (char *)malloc(2200 + 300 * ((id + i) % 9));
        b[i][0] = id;
        b[i][2100] = 1;
    }
    if (ex_is("purge-unmap") || ex_is("none")) {
        size_t n = 256 << 10;
        char *m = (char *)mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        m[0] = 1;
        m[8192] = 2;
        munmap(m, n);
    }
    {
        std::shared_lock<std::shared_mutex> g(mapmu);
        auto it = store.find(id % 5000);
        if (it != store.end())
            ex_sink += it->second.size();
    }
    EX_BURN_US(O.work_us);
    for (int i = 0; i < 6; i++)
        free(b[i]);
}
static void conn(int s) {
    ex_name("glt-conn");
    ex_nodelay(s);
    exreq q;
    while (!ex_full(s, &q, sizeof q, 0)) {
        gault_answer(q.id);
        if (ex_full(s, &q, sizeof q, 1))
            break;
    }
    close(s);
}
static void fill() {
    for (int i = 0; i < 110000; i++) {
        void *p = malloc(3000);
        memset(p, 1, 3000);
        pool.push_back(p);
        if (i % 2000 == 0)
            ex_sleep_ms(10);
    }
}
static void keeper() {
    ex_name("glt-keeper");
    for (int k = 0;; k++) {
        double t = ex_now();
        if (ex_is("wlock-calc")) {
            ex_sleep_ms(2400);
            std::unique_lock<std::shared_mutex> g(mapmu);
            gault_rehash_all(120000);
            continue;
        }
        if (ex_is("purge-unmap")) {
            size_t n = 900u << 20;
            char *p = (char *)mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            madvise(p, n, MADV_NOHUGEPAGE);
            for (size_t i = 0; i < n; i += 4096) {
                p[i] = 1;
                if (i % (4 << 20) == 0)
                    ex_sleep_ms(3);
            }
            double z = t + 3.0 - ex_now();
            if (z > 0)
                ex_sleep_ms(z * 1e3);
            gault_drop_region(p, n);
            continue;
        }
        pool.reserve(120000);
        fill();
        size_t j = 0;
        for (size_t i = 0; i < pool.size(); i++) {
            if (i % 8)
                free(pool[i]);
            else
                pool[j++] = pool[i];
            if (i % 2000 == 0)
                ex_sleep_ms(4);
        }
        pool.resize(j);
        double z = t + 3.0 - ex_now();
        if (z > 0)
            ex_sleep_ms(z * 1e3);
        if (ex_is("purge-trim"))
            gault_purge_pool();
        for (size_t i = 0; i < pool.size(); i++) {
            free(pool[i]);
            if (i % 1000 == 0)
                ex_sleep_ms(2);
        }
        pool.clear();
    }
}
int main(int c, char **v) {
    ex_args(c, v, 21040, 200, 250, 8);
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 2047 << 20);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (int i = 0; i < 5000; i++)
        store[i] = std::string(100 + i % 50, 'x');
    int l = ex_listen(O.port);
    std::thread(keeper).detach();
    ex_load("keep", 0, 0);
    for (;;) {
        int s = accept(l, 0, 0);
        if (s >= 0)
            std::thread(conn, s).detach();
    }
}
