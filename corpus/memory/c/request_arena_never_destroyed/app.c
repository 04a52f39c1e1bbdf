// A gateway with an arena for each request, whose chunks come from malloc. The arena of a stream that ends by timeout
// is never destroyed.
#include "../common.h"

struct chunk {
    struct chunk *next;
    size_t used, cap;
    char mem[];
};

struct arena {
    struct chunk *top;
    size_t total;
};

NOINLINE struct chunk *arena_chunk(struct arena *a, size_t n) {
    size_t cap = n > 32000 ? n : 32000;
    struct chunk *c = malloc(sizeof *c + cap);
    c->next = a->top;
    c->used = 0;
    c->cap = cap;
    a->total += cap;
    return a->top = c;
}

NOINLINE void *arena_alloc(struct arena *a, size_t n) {
    struct chunk *c = a->top;
    n = (n + 15) & ~15ul;
    if (!c || c->used + n > c->cap)
        c = arena_chunk(a, n);
    void *p = c->mem + c->used;
    c->used += n;
    return p;
}

static void arena_destroy(struct arena *a) {
    for (struct chunk *c = a->top, *n; c; c = n) {
        n = c->next;
        free(c);
    }
    a->top = 0;
    a->total = 0;
}

struct stream {
    struct arena a;
    char *frames[200];
    int nframes, timeout;
};

NOINLINE void upgrade_stream(struct stream *s) {
    memset(s, 0, sizeof *s);
    s->nframes = rng(40, 120);
    for (int i = 0; i < s->nframes; i++) {
        s->frames[i] = arena_alloc(&s->a, 900);
        memset(s->frames[i], i, 900);
    }
    s->timeout = rnd() % 3 == 0;
}

NOINLINE unsigned handle_request(void) {
    struct arena a = {0, 0};
    unsigned sum = 0;
    int n = rng(10, 60);
    for (int i = 0; i < n; i++) {
        char *p = arena_alloc(&a, rng(200, 1500));
        p[0] = i;
        p[199] = i;
        sum += p[0];
    }
    arena_destroy(&a);
    return sum;
}

int main(void) {
    static struct stream st[60];
    double t0 = now(), next = 0;
    unsigned n = 0, sum = 0;
    ready();
    for (;;) {
        int k = 2 + (int)(swing(now() - t0, 9) * 8);
        while (k--)
            sum += handle_request();
        if (now() - t0 > next) {
            next += 0.055;
            struct stream *s = &st[n++ % 60];
            if (!s->timeout) /* else the close handler is not run */
                arena_destroy(&s->a);
            upgrade_stream(s);
        }
        nap(20);
    }
}
