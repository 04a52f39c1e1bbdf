// An object cache with a bound of 64 MB in bytes; each new object pushes the least recently stored ones out. Mode
// full_at_start: it is full before it is ready. Mode fills_first: it is full after some 30 s.
#include "../common.h"

struct obj {
    struct obj *prev, *next, *hn;
    unsigned key;
    size_t n;
    char d[];
};
static struct obj head, *tab[65536];
static size_t bytes;
enum { CAP = 64 << 20 };

NOINLINE void evict_oldest(void) {
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

NOINLINE void store_object(unsigned key, size_t n) {
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
        evict_oldest();
}

int main(int argc, char **argv) {
    int fills_first = argc > 1 && !strcmp(argv[1], "fills_first"), said = 0;
    head.next = head.prev = &head;
    char *tmp[64] = {0};
    for (;;) {
        for (int k = 0, m = bytes < CAP - 20000 && !fills_first ? 2000 : 14; k < m; k++) {
            store_object(rnd(), rng(500, 9000));
            int j = rnd() % 64;
            free(tmp[j]);
            tmp[j] = malloc(rng(100, 3000));
            tmp[j][0] = k;
        }
        if (!said && (fills_first || bytes >= CAP - 20000)) {
            ready();
            said = 1;
        }
        nap(12);
    }
}
