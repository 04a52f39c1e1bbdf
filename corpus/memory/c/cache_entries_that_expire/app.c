// A resolver with a cache. Mode ten_minutes: entries expire after ten minutes, so it fills all the time. Mode
// twenty_seconds: after twenty, and it is ready once they come and go.
#include "../common.h"

struct ent {
    struct ent *next;
    double exp;
    unsigned key;
    size_t n;
    unsigned char rr[];
};
static struct ent *tab[32768];
static double keep_s = 600;

NOINLINE struct ent *dns_cache_put(unsigned key, const void *d, size_t n) {
    struct ent *e = malloc(sizeof *e + n);
    e->key = key;
    e->exp = now() + keep_s;
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

int main(int argc, char **argv) {
    double last = now(), start = last;
    int short_lived = argc > 1 && !strcmp(argv[1], "twenty_seconds"), said = 0;
    if (short_lived)
        keep_s = 20;
    char **zone = calloc(30000, sizeof *zone);
    int zn = 0;
    enum { P = 2000 };
    char *pend[P] = {0};
    unsigned i = 0;
    for (;;) {
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
            int z = zn < 30000 ? zn++ : (int)(rnd() % 30000);
            free(zone[z]);
            zone[z] = zone_record();
        }
        if (!said && (!short_lived || now() - start > 31)) {
            ready();
            said = 1;
        }
        if (now() - last > 10) {
            dns_cache_expire();
            last = now();
        }
        nap(10);
    }
}
