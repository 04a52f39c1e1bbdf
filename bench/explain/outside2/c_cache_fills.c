// thumbnail cache with a bound of 90 MB: full after about 30 s, from then on each new entry evicts the oldest
#include "util.h"
struct ent {
    struct ent *newer;
    unsigned key;
    size_t n;
    char px[];
};
static struct ent *oldest, *newest, *bucket_[65536];
static size_t used, bound = 90l << 20;
NOINLINE void cache_put(unsigned key) {
    size_t n = rng(2000, 14000);
    while (used + n > bound) {
        struct ent *o = oldest;
        oldest = o->newer;
        if (bucket_[o->key & 65535] == o)
            bucket_[o->key & 65535] = 0;
        used -= o->n;
        free(o);
    }
    struct ent *e = malloc(sizeof *e + n);
    memset(e->px, key, n);
    e->n = n;
    e->key = key;
    e->newer = 0;
    if (newest)
        newest->newer = e;
    else
        oldest = e;
    newest = e;
    bucket_[key & 65535] = e;
    used += n;
    live_ = used;
}
int main(void) {
    double t0 = now();
    unsigned key = 0;
    while (now() - t0 < RUN_LIMIT) {
        int k = 3 + (int)(swing(now() - t0, 8) * 6);
        while (k--)
            cache_put(key++);
        truth();
        nap(15);
    }
    return 0;
}
