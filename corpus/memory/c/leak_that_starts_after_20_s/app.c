// A mail merge: letters are rendered, queued for a second or two and freed. From the 20th second on a new rule takes
// letters out of the queue without freeing them.
#include "../common.h"

static struct letter {
    char *text;
    size_t n;
    int opted_out;
} queue[2400];

NOINLINE char *expand_template(size_t n, unsigned id) {
    char *t = malloc(n);
    memset(t, ' ', n);
    snprintf(t, n, "Dear customer %u,", id);
    return t;
}

int main(void) {
    unsigned id = 0;
    double t0 = now();
    ready();
    for (;;) {
        int rule = now() - t0 > 20;
        for (int i = 0; i < 14; i++, id++) {
            struct letter *l = &queue[id % 2400];
            if (!(rule && l->opted_out))
                free(l->text);
            l->n = rng(900, 4200);
            l->text = expand_template(l->n, id);
            l->opted_out = rnd() % 3 == 0;
        }
        serve_requests(30);
        nap(10);
    }
}
