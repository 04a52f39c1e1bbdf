// sensor hub: readings live about two seconds, one of fourteen is kept in a table of a fixed number of bytes (a random one goes); the size
// of a reading creeps up, so that the pages of the sizes of before are held by a few kept readings each
#include "work.h"
#include <vector>
struct Reading {
    char *p;
    size_t n;
};
static std::vector<Reading> kept, fresh(20000);
static size_t bytes;
NOINLINE char *take_reading(size_t n) {
    char *p = static_cast<char *>(malloc(n));
    memset(p, 1, n);
    return p;
}
static void keep(Reading r) {
    kept.push_back(r);
    bytes += r.n;
    while (bytes > 26u << 20) {
        unsigned k = rnd() % kept.size();
        bytes -= kept[k].n;
        free(kept[k].p);
        kept[k] = kept.back();
        kept.pop_back();
    }
    live_ = bytes;
}
int main() {
    double t0 = now(), size = 56;
    for (int i = 0; i < 26 << 10; i++)
        keep({take_reading(1000), 1000});
    while (now() - t0 < RUN_LIMIT) {
        size_t n = (size_t)size;
        for (size_t done = 0; done < 52000; done += n) {
            size_t m = n - rnd() % (n / 8 + 1);
            Reading &f = fresh[rnd() % (6000000 / n < 20000 ? 6000000 / n : 20000)];
            if (f.p && rnd() % 14 == 0)
                keep(f);
            else
                free(f.p);
            f = {take_reading(m), m};
        }
        size *= 1.0005;
        if (size > 5000)
            size = 56;
        truth();
        nap(8);
    }
    return 0;
}
