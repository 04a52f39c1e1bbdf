// rules are compiled per mail and thrown away some seconds later; a negated rule is wrapped and its inner program lost
#include "util.h"
struct rule {
    size_t n;
    int neg;
    char *prog;
};
static struct rule *recent[900];
static unsigned at;
NOINLINE struct rule *rule_compile(unsigned id) {
    struct rule *r = malloc(sizeof *r);
    r->n = rng(2000, 11000);
    r->prog = malloc(r->n);
    memset(r->prog, id, r->n);
    r->neg = rnd() % 3 == 0;
    return r;
}
static void rule_free(struct rule *r) {
    if (!r)
        return;
    if (r->neg)
        lost_ += r->n;
    else
        free(r->prog);
    free(r);
}
void filter_run(unsigned mail) {
    struct rule **p = &recent[at++ % 900];
    rule_free(*p);
    *p = rule_compile(mail);
}
long filter_lost(void) {
    return lost_;
}
