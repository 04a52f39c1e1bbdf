// formula evaluator: trees of 24-byte nodes, kept about a second; the release folds a negated constant and forgets the node it folded
#include "work.h"
struct node {
    struct node *a, *b;
    float v;
    int op;
};
NOINLINE struct node *number(float v) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){0, 0, v, 'n'};
    return n;
}
NOINLINE struct node *negation(struct node *a) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){a, 0, -a->v, '-'};
    return n;
}
NOINLINE struct node *pair(struct node *a, struct node *b, int op) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){a, b, op == '+' ? a->v + b->v : a->v * b->v, op};
    return n;
}
static struct node *formula(int depth) {
    if (!depth)
        return rnd() % 2 ? number(rnd() % 100) : negation(number(rnd() % 9));
    struct node *l = formula(depth - 1), *r = formula(depth - 1);
    return pair(l, r, rnd() % 2 ? '+' : '*');
}
static void release(struct node *n) {
    if (!n)
        return;
    if (n->op == '-' && ((int)n->v & 1)) {
        n->a->v = n->v;
        lost_ += sizeof *n;
        n = n->a;
    }
    struct node *a = n->a, *b = n->b;
    free(n);
    release(a);
    release(b);
}
int main(void) {
    static struct node *recent[6000];
    double t0 = now();
    unsigned k = 0;
    while (now() - t0 < RUN_LIMIT) {
        for (int i = 0; i < 60; i++, k++) {
            release(recent[k % 6000]);
            recent[k % 6000] = formula(4);
        }
        bystanders(20);
        truth();
        nap(10);
    }
    return 0;
}
