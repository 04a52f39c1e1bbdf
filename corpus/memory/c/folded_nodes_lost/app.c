// A formula evaluator: trees of 24-byte nodes, kept for about a second. The release folds a negated constant and does
// not free the node that it folded.
#include "../common.h"

struct node {
    struct node *a, *b;
    float v;
    int op;
};

NOINLINE struct node *number_node(float v) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){0, 0, v, 'n'};
    return n;
}

NOINLINE struct node *negation_node(struct node *a) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){a, 0, -a->v, '-'};
    return n;
}

NOINLINE struct node *pair_node(struct node *a, struct node *b, int op) {
    struct node *n = malloc(sizeof *n);
    *n = (struct node){a, b, op == '+' ? a->v + b->v : a->v * b->v, op};
    return n;
}

static struct node *formula(int depth) {
    if (!depth)
        return rnd() % 2 ? number_node(rnd() % 100) : negation_node(number_node(rnd() % 9));
    struct node *l = formula(depth - 1), *r = formula(depth - 1);
    return pair_node(l, r, rnd() % 2 ? '+' : '*');
}

static void release(struct node *n) {
    if (!n)
        return;
    if (n->op == '-' && ((int)n->v & 1)) {
        n->a->v = n->v;
        n = n->a;
    }
    struct node *a = n->a, *b = n->b;
    free(n);
    release(a);
    release(b);
}

int main(void) {
    static struct node *recent[6000];
    unsigned k = 0;
    ready();
    for (;;) {
        for (int i = 0; i < 60; i++, k++) {
            release(recent[k % 6000]);
            recent[k % 6000] = formula(4);
        }
        serve_requests(20);
        nap(10);
    }
}
