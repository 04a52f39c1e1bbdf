// log processor: every token is interned for ever, including request ids; interned nodes are never released
#include "util.h"
struct sym {
    struct sym *next;
    unsigned h;
    unsigned len;
    char s[];
};
static struct sym *tab[65536];
NOINLINE struct sym *intern_token(const char *s, size_t n) {
    unsigned h = 5381;
    for (size_t i = 0; i < n; i++)
        h = h * 33 + (unsigned char)s[i];
    for (struct sym *p = tab[h & 65535]; p; p = p->next)
        if (p->h == h && p->len == n && !memcmp(p->s, s, n))
            return p;
    struct sym *p = malloc(sizeof *p + n + 1);
    p->h = h;
    p->len = n;
    memcpy(p->s, s, n);
    p->s[n] = 0;
    p->next = tab[h & 65535];
    tab[h & 65535] = p;
    return p;
}
struct line {
    char *text;
    struct sym **tok;
    int n;
};
NOINLINE struct line *tokenize(const char *s) {
    struct line *l = calloc(1, sizeof *l);
    l->text = strdup(s);
    char *sv, *c = strdup(s);
    for (char *t = strtok_r(c, " ", &sv); t; t = strtok_r(0, " ", &sv)) {
        if (l->n % 8 == 0)
            l->tok = realloc(l->tok, (l->n + 8) * sizeof *l->tok);
        l->tok[l->n++] = intern_token(t, strlen(t));
    }
    free(c);
    return l;
}
int main(void) {
    double t0 = now();
    enum { W = 20000 };
    struct line **win = calloc(W, sizeof *win);
    unsigned w = 0;
    char b[4096];
    static const char *words[] = {"GET",  "POST",    "/index",   "/cart", "200",  "404", "timeout",
                                  "user", "session", "upstream", "cache", "miss", "hit"};
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 40; k++) {
            int n = sprintf(b, "req-%08x%08x%08x%08x%08x ", rnd(), rnd(), rnd(), rnd(), rnd());
            int m = rng(20, 80);
            for (int i = 0; i < m; i++)
                n += sprintf(b + n, "%s ", words[rnd() % 13]);
            struct line *l = tokenize(b);
            struct line *o = win[w];
            win[w] = l;
            w = (w + 1) % W;
            if (o) {
                free(o->text);
                free(o->tok);
                free(o);
            }
        }
        nap(14);
    }
    return 0;
}
