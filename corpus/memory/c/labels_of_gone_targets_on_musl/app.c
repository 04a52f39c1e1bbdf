// A metrics agent on musl. When a target disappears, its labels are not freed.
#include "../common.h"

struct label {
    char *k, *v;
    struct label *next;
};

struct series {
    struct label *l;
    double *ring;
};

NOINLINE struct label *label_add(struct label *l) {
    struct label *n = malloc(sizeof *n);
    n->k = malloc(40);
    memset(n->k, 1, 40);
    n->v = malloc(120);
    memset(n->v, 2, 120);
    n->next = l;
    return n;
}

NOINLINE void target_gone(struct series *s) {
    free(s->ring);
    s->ring = 0;
    s->l = 0;
}

int main(void) {
    enum { N = 1500 };
    static struct series s[N];
    ready();
    for (;;) {
        for (int k = 0; k < 3; k++) {
            struct series *x = &s[rnd() % N];
            if (x->ring)
                target_gone(x);
            x->ring = malloc(12000);
            memset(x->ring, 0, 12000);
            for (int i = 0; i < 6; i++)
                x->l = label_add(x->l);
        }
        nap(11);
    }
}
