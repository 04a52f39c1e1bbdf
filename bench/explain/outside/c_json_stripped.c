// document store: JSON parse/replace; a duplicate key in an object drops the old subtree without freeing it
#include "util.h"
typedef struct val {
    int kind;
    char *str;
    struct val **kid;
    char **key;
    int n, cap;
} val;
static val *mk(int k) {
    val *v = calloc(1, sizeof *v);
    v->kind = k;
    return v;
}
static void del(val *v) {
    if (!v)
        return;
    for (int i = 0; i < v->n; i++) {
        free(v->key[i]);
        del(v->kid[i]);
    }
    free(v->kid);
    free(v->key);
    free(v->str);
    free(v);
}
NOINLINE static void obj_set(val *o, char *k, val *v) {
    for (int i = 0; i < o->n; i++)
        if (!strcmp(o->key[i], k)) {
            free(k);
            o->kid[i] = v;
            return;
        }
    if (o->n == o->cap) {
        o->cap = o->cap ? o->cap * 2 : 4;
        o->kid = realloc(o->kid, o->cap * sizeof *o->kid);
        o->key = realloc(o->key, o->cap * sizeof *o->key);
    }
    o->key[o->n] = k;
    o->kid[o->n++] = v;
}
NOINLINE static val *parse(const char **p) {
    if (**p == '{') {
        val *o = mk(1);
        (*p)++;
        while (**p && **p != '}') {
            const char *e = strchr(*p, ':');
            size_t l = e - *p;
            char *k = malloc(l + 1);
            memcpy(k, *p, l);
            k[l] = 0;
            *p = e + 1;
            val *v = parse(p);
            obj_set(o, k, v);
            if (**p == ',')
                (*p)++;
        }
        (*p)++;
        return o;
    }
    size_t l = strcspn(*p, ",}");
    val *s = mk(2);
    s->str = malloc(l + 1);
    memcpy(s->str, *p, l);
    s->str[l] = 0;
    *p += l;
    return s;
}
static int gen(char *b, int d) {
    int n = 0;
    b[n++] = '{';
    int k = rng(3, 7);
    for (int i = 0; i < k; i++) {
        if (i)
            b[n++] = ',';
        n += sprintf(b + n, "field%u:", rnd() % 150);
        if (d > 0 && rnd() % 3 == 0)
            n += gen(b + n, d - 1);
        else {
            int l = rng(10, 120);
            memset(b + n, 'a' + rnd() % 26, l);
            n += l;
        }
    }
    b[n++] = '}';
    b[n] = 0;
    return n;
}
int main(void) {
    double t0 = now();
    enum { N = 2500 };
    val **docs = calloc(N, sizeof *docs);
    static char buf[1 << 20];
    unsigned i = 0;
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 6; k++) {
            gen(buf, 4);
            const char *p = buf;
            val *v = parse(&p);
            i = rnd() % N;
            del(docs[i]);
            docs[i] = v;
        }
        nap(12);
    }
    return 0;
}
