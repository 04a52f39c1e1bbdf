// A mail filter that opens its plugin 8 s after the start. The plugin compiles a rule for each mail and drops it some
// seconds later; of a negated rule the program stays. Modes: opened_late (as it is), deep_bind (by RTLD_DEEPBIND, so
// that the plugin calls libc's own malloc), host_function (the plugin allocates by a function of the host's).
// Built twice: the host, and with -DPLUGIN the plugin.
#include "../common.h"
#include <dlfcn.h>

#ifdef PLUGIN
struct rule {
    int negated;
    char *program;
};
static struct rule *recent[900];
static unsigned rules;
static void *(*allocate)(size_t) = malloc;

NOINLINE struct rule *rule_compile(unsigned id) {
    struct rule *r = allocate(sizeof *r);
    size_t n = rng(2000, 11000);
    r->program = allocate(n);
    memset(r->program, id, n);
    r->negated = rnd() % 3 == 0;
    return r;
}

void filter_start(void *(*host_allocate)(size_t)) {
    if (host_allocate)
        allocate = host_allocate;
}

void filter_run(unsigned mail) {
    struct rule **r = &recent[rules++ % 900];
    if (*r && !(*r)->negated)
        free((*r)->program);
    free(*r);
    *r = rule_compile(mail);
}
#else
static char *mail[4000];

NOINLINE void *host_allocate(size_t n) {
    void *block = malloc(n);
    if (!block)
        abort();
    return block;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "opened_late";
    void (*run)(unsigned) = 0;
    for (int i = 0; i < 4000; i++)
        mail[i] = memset(malloc(8000), 1, 8000);
    ready();
    for (double start = now();;) {
        if (!run && now() - start > 8) {
            void *plugin = dlopen("./rules.so", RTLD_NOW | (strcmp(mode, "deep_bind") ? 0 : RTLD_DEEPBIND));
            if (!plugin)
                return 1;
            void (*start_filter)(void *(*)(size_t)) = (void (*)(void *(*)(size_t)))dlsym(plugin, "filter_start");
            start_filter(strcmp(mode, "host_function") ? 0 : host_allocate);
            run = (void (*)(unsigned))dlsym(plugin, "filter_run");
        }
        for (int i = 0; i < 8; i++) {
            unsigned m = rnd() % 4000;
            free(mail[m]);
            mail[m] = memset(malloc(8000), 2, 8000);
            if (run)
                run(m);
        }
        nap(25);
    }
}
#endif
