// object cache bounded by bytes (64 MB), full after the first seconds; then pure turnover
#include "util.h"
struct obj {
    struct obj *prev, *next, *hn;
    unsigned key;
    size_t n;
    char d[];
};
static struct obj head, *tab[65536];
static size_t bytes;
enum { CAP = 64 << 20 };
NOINLINE void cache_evict(void) {
    struct obj *o = head.prev;
    o->prev->next = &head;
    head.prev = o->prev;
    struct obj **p = &tab[o->key & 65535];
    while (*p != o)
        p = &(*p)->hn;
    *p = o->hn;
    bytes -= o->n;
    free(o);
}
NOINLINE void cache_put(unsigned key, size_t n) {
    struct obj *o = malloc(sizeof *o + n);
    o->key = key;
    o->n = n;
    memset(o->d, key, n);
    o->hn = tab[key & 65535];
    tab[key & 65535] = o;
    o->next = head.next;
    o->prev = &head;
    head.next->prev = o;
    head.next = o;
    bytes += n;
    while (bytes > CAP)
        cache_evict();
}
int main(void) {
    double t0 = now();
    head.next = head.prev = &head;
    char *tmp[64] = {0};
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0, m = bytes < CAP - 20000 ? 2000 : 14; k < m; k++) {
            cache_put(rnd(), rng(500, 9000));
            int j = rnd() % 64;
            free(tmp[j]);
            tmp[j] = malloc(rng(100, 3000));
            tmp[j][0] = k;
        }
        nap(12);
    }
    return 0;
}
