// A host with two filters in plugins; the second one loses the replacement of some of its rules. Mode every_25_s: both
// stay open and are reloaded every 25 s. Mode in_turns: each in turn is opened, used and closed within a second, so
// that both lie at the same addresses. Built three times: the host, and with -DUPPER and -DREWRITE the plugins.
#include "../common.h"
#include <dlfcn.h>

#if defined(UPPER)
char *plugin_filter(const char *text, size_t n, size_t *out) {
    char *result = malloc(n);
    for (size_t i = 0; i < n; i++)
        result[i] = text[i] & ~32;
    *out = n;
    return result;
}
#elif defined(REWRITE)
struct rule {
    char *pattern, *replacement;
    size_t n;
};

NOINLINE static struct rule *compile_rewrite_rule(const char *text, size_t n) {
    struct rule *r = malloc(sizeof *r);
    r->n = n / 6 + 40;
    r->pattern = malloc(r->n);
    memcpy(r->pattern, text, r->n);
    r->replacement = malloc(r->n);
    memset(r->replacement, '#', r->n);
    return r;
}

char *plugin_filter(const char *text, size_t n, size_t *out) {
    struct rule *r = compile_rewrite_rule(text, n);
    char *result = malloc(n + r->n);
    memcpy(result, text, n);
    memcpy(result + n, r->replacement, r->n);
    *out = n + r->n;
    free(r->pattern);
    if (text[0] > 'H')
        free(r->replacement);
    free(r);
    return result;
}
#else
typedef char *(*filter)(const char *, size_t, size_t *);
static const char *path[2] = {"./upper.so", "./rewrite.so"};
static char *kept[500];

static filter open_plugin(int i, void **handle) {
    *handle = dlopen(path[i], RTLD_NOW);
    if (!*handle)
        exit(1);
    return (filter)dlsym(*handle, "plugin_filter");
}

static char *receive_text(size_t *n) {
    *n = rng(3000, 20000);
    return memset(malloc(*n), 'A' + rnd() % 26, *n);
}

static void keep_result(char *text) {
    unsigned i = rnd() % 500;
    free(kept[i]);
    kept[i] = text;
}

static void run_in_turns(void) {
    for (int turn = 0;; turn++) {
        void *handle;
        filter apply = open_plugin(turn % 2, &handle);
        for (int k = 0; k < 60; k++) {
            size_t n, out;
            char *text = receive_text(&n);
            keep_result(apply(text, n, &out));
            free(text);
            nap(5);
        }
        dlclose(handle);
    }
}

int main(int argc, char **argv) {
    void *handle[2];
    filter apply[2] = {0};
    double next = now();
    ready();
    if (argc > 1 && !strcmp(argv[1], "in_turns"))
        run_in_turns();
    for (int turn = 0;; turn++) {
        if (now() >= next) {
            for (int i = 0; i < 2; i++) {
                if (turn)
                    dlclose(handle[i]);
                apply[i] = open_plugin(i, &handle[i]);
            }
            next += 25;
        }
        for (int k = 0; k < 3; k++) {
            size_t n, first, second;
            char *text = receive_text(&n), *upper = apply[0](text, n, &first);
            free(text);
            keep_result(apply[1](upper, first, &second));
            free(upper);
        }
        nap(12);
    }
}
#endif
