// metrics exporter, three threads: series formatted by asprintf, kept for three scrapes; those that need escaping lose the first text
#include "util.h"
#include <pthread.h>
#define SERIES 130
static char pad[1200];
NOINLINE char *format_series(unsigned id, unsigned v) {
    char *s = 0;
    int n = asprintf(&s, "http_requests_total{host=\"web-%u\",path=\"/%.*s\"} %u", id % 40, 300 + (int)(id * 37 % 800), pad, v);
    return n < 0 ? 0 : s;
}
NOINLINE char *escape_series(const char *s) {
    char *e = 0;
    int n = asprintf(&e, "# escaped\n%s", s);
    return n < 0 ? 0 : e;
}
static void *exporter(void *a) {
    unsigned base = (unsigned)(uintptr_t)a * 1000, scrape = 0;
    char *text[3][SERIES] = {{0}};
    for (;;) {
        char **cur = text[scrape++ % 3];
        for (unsigned i = 0; i < SERIES; i++) {
            free(cur[i]);
            cur[i] = format_series(base + i, rnd());
            if (rnd() % 9 == 0) {
                __sync_fetch_and_add(&lost_, strlen(cur[i]) + 1);
                cur[i] = escape_series(cur[i]);
            }
        }
        nap(70 + rnd() % 40);
    }
    return 0;
}
int main(void) {
    double t0 = now();
    memset(pad, 'p', sizeof pad - 1);
    pthread_t t;
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&t, 0, exporter, (void *)i);
    while (now() - t0 < RUN_LIMIT) {
        truth();
        nap(200);
    }
    return 0;
}
