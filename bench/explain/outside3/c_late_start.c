// mail merge: letters are rendered, queued for a second or two, freed; from the 20th second the new rule "skip opted-out" takes letters
// out of the queue without freeing them
#include "work.h"
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
    double t0 = now();
    unsigned id = 0;
    while (now() - t0 < RUN_LIMIT) {
        int rule = now() - t0 > 20;
        for (int i = 0; i < 14; i++, id++) {
            struct letter *l = &queue[id % 2400];
            if (rule && l->opted_out)
                lost_ += l->n;
            else
                free(l->text);
            l->n = rng(900, 4200);
            l->text = expand_template(l->n, id);
            l->opted_out = rnd() % 3 == 0;
        }
        bystanders(30);
        truth();
        nap(10);
    }
    return 0;
}
