#include "util.h"
struct enc {
    char *state;
};
void *enc_new(void) {
    struct enc *e = malloc(sizeof *e);
    e->state = malloc(9000);
    memset(e->state, 0, 9000);
    return e;
}
NOINLINE static char *enc_grow_window(struct enc *e, int n) {
    char *w = malloc(n);
    memset(w, n, n);
    e->state[n % 9000] = 1;
    return w;
}
int enc_feed(void *v, const char *d, int n) {
    char *w = enc_grow_window(v, n);
    int s = 0;
    for (int i = 0; i < n; i++)
        s += w[i] ^ d[i];
    if (n % 5)
        free(w);
    return s;
}
void enc_free(void *v) {
    struct enc *e = v;
    free(e->state);
    free(e);
}
