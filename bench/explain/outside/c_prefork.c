// prefork server: master idles over a config table, two workers; worker 2's session history is only trimmed for
// anonymous users
#include "util.h"
#include <sys/wait.h>
#include <signal.h>
#include <sys/prctl.h>
struct hist {
    struct hist *next;
    char *url;
};
struct sess {
    unsigned id;
    int anon;
    struct hist *h;
    char *state;
};
NOINLINE void session_append_history(struct sess *s) {
    struct hist *h = malloc(sizeof *h);
    size_t n = rng(200, 1400);
    h->url = malloc(n);
    memset(h->url, '/', n);
    h->next = s->h;
    s->h = h;
}
NOINLINE void session_end(struct sess *s) {
    struct hist *h = s->h;
    if (s->anon)
        while (h) {
            struct hist *n = h->next;
            free(h->url);
            free(h);
            h = n;
        }
    free(s->state);
    memset(s, 0, sizeof *s);
}
static void worker(int id) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    double t0 = now();
    enum { N = 1500 };
    struct sess *tab = calloc(N, sizeof *tab);
    char *page[400] = {0};
    rs_ = id * 7919 + now() * 1e6;
    while (now() - t0 < RUN_LIMIT - 2) {
        for (int k = 0; k < 4; k++) {
            struct sess *s = &tab[rnd() % N];
            if (rnd() % 4 == 0)
                session_end(s);
            if (!s->state) {
                s->id = rnd();
                s->anon = id == 1 || rnd() % 10 < 7;
                s->state = malloc(9000);
                memset(s->state, 1, 9000);
            }
            for (int j = 0; j < 3; j++)
                session_append_history(s);
            int i = rnd() % 400;
            free(page[i]);
            size_t n = rng(2000, 30000);
            page[i] = malloc(n);
            memset(page[i], k, n);
        }
        nap(11);
    }
    _exit(0);
}
NOINLINE char *cfg_value(void) {
    char *v = malloc(1000);
    memset(v, 1, 1000);
    return v;
}
int main(void) {
    double t0 = now();
    char **cfg = calloc(4000, sizeof *cfg);
    for (int i = 0; i < 4000; i++)
        cfg[i] = cfg_value();
    for (int id = 1; id <= 2; id++) {
        if (fork() == 0)
            worker(id);
    }
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 40; k++) {
            int i = rnd() % 4000;
            free(cfg[i]);
            cfg[i] = cfg_value();
        }
        nap(100);
        waitpid(-1, 0, WNOHANG);
    }
    return 0;
}
