#include "util.h"
char *plugin_filter(const char *d, size_t n, size_t *o) {
    char *r = malloc(n);
    for (size_t i = 0; i < n; i++)
        r[i] = d[i] & ~32;
    *o = n;
    return r;
}
