#include "util.h"
struct rule {
    char *pat;
    char *rep;
    size_t n;
};
NOINLINE static struct rule *compile_rewrite_rule(const char *d, size_t n) {
    struct rule *r = malloc(sizeof *r);
    r->n = n / 6 + 40;
    r->pat = malloc(r->n);
    memcpy(r->pat, d, r->n);
    r->rep = malloc(r->n);
    memset(r->rep, '#', r->n);
    return r;
}
char *plugin_filter(const char *d, size_t n, size_t *o) {
    struct rule *r = compile_rewrite_rule(d, n);
    char *q = malloc(n + r->n);
    memcpy(q, d, n);
    memcpy(q + n, r->rep, r->n);
    *o = n + r->n;
    free(r->pat);
    if (d[0] > 'H') {
        free(r->rep);
    }
    free(r);
    return q;
}
