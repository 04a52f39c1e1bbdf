// resolver with a cache whose TTL is ten minutes: it fills for the whole watch
#include "util.h"
struct ent {
    struct ent *next;
    double exp;
    unsigned key;
    size_t n;
    unsigned char rr[];
};
static struct ent *tab[32768];
static double t0;
NOINLINE struct ent *dns_cache_put(unsigned key, const void *d, size_t n) {
    struct ent *e = malloc(sizeof *e + n);
    e->key = key;
    e->exp = now() + 600;
    e->n = n;
    memcpy(e->rr, d, n);
    e->next = tab[key & 32767];
    tab[key & 32767] = e;
    return e;
}
NOINLINE void dns_cache_expire(void) {
    double t = now();
    for (int i = 0; i < 32768; i++) {
        struct ent **p = &tab[i];
        while (*p) {
            if ((*p)->exp < t) {
                struct ent *d = *p;
                *p = d->next;
                free(d);
            } else
                p = &(*p)->next;
        }
    }
}
NOINLINE int resolve(unsigned key, char *q, size_t qn) {
    for (struct ent *e = tab[key & 32767]; e; e = e->next)
        if (e->key == key)
            return 1;
    size_t n = rng(300, 2600);
    char *r = malloc(n);
    memset(r, q[qn / 2], n);
    dns_cache_put(key, r, n);
    free(r);
    return 0;
}
NOINLINE char *zone_record(void) {
    char *z = malloc(2000);
    memset(z, 2, 2000);
    return z;
}
int main(void) {
    t0 = now();
    double last = t0;
    char **zone = calloc(30000, sizeof *zone);
    int zn = 0;
    enum { P = 2000 };
    char *pend[P] = {0};
    unsigned i = 0;
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 5; k++) {
            size_t n = rng(2000, 14000);
            char *q = malloc(n);
            memset(q, rnd(), n);
            resolve(rnd() % 3 ? rnd() : rnd() % 1000, q, n);
            free(pend[i]);
            pend[i] = q;
            i = (i + 1) % P;
        }
        for (int k = 0, m = zn < 30000 ? 30000 : 8; k < m; k++) {
            int z = zn < 30000 ? zn++ : rnd() % 30000;
            free(zone[z]);
            zone[z] = zone_record();
        }
        if (now() - last > 10) {
            dns_cache_expire();
            last = now();
        }
        nap(10);
    }
    return 0;
}
