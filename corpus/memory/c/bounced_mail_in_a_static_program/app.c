// A mail queue, linked statically. The envelope of a message that bounced is not freed.
#include "../common.h"

struct msg {
    struct msg *next;
    char *env;
    char *body;
    int bounced;
};

NOINLINE struct msg *enqueue_message(void) {
    struct msg *m = malloc(sizeof *m);
    size_t n = rng(400, 1600);
    m->env = malloc(n);
    memset(m->env, 1, n);
    n = rng(5000, 20000);
    m->body = malloc(n);
    memset(m->body, 2, n);
    m->bounced = rnd() % 2;
    m->next = 0;
    return m;
}

NOINLINE void deliver(struct msg *m) {
    if (!m->bounced)
        free(m->env);
    free(m->body);
    free(m);
}

int main(void) {
    struct msg *h = 0, **t = &h;
    int n = 0;
    ready();
    for (;;) {
        for (int k = 0; k < 4; k++) {
            *t = enqueue_message();
            t = &(*t)->next;
            n++;
            while (n > 900) {
                struct msg *m = h;
                h = m->next;
                deliver(m);
                n--;
            }
        }
        nap(12);
    }
}
