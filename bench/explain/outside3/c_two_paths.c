// table server: row_dup is the helper everybody uses; serve_query gives its copies back, replay_backlog and merge_peer keep some
#include "work.h"
struct row {
    unsigned n, key;
    char cells[];
};
static struct row *master[3000], *out[4000];
static unsigned outs;
NOINLINE struct row *row_dup(const struct row *r) {
    struct row *c = malloc(sizeof *c + r->n);
    memcpy(c, r, sizeof *c + r->n);
    return c;
}
static void send_later(struct row *r) {
    free(out[outs % 4000]);
    out[outs++ % 4000] = r;
}
NOINLINE void serve_query(unsigned k) {
    struct row *c = row_dup(master[k % 3000]);
    c->cells[0]++;
    send_later(c);
}
NOINLINE void replay_backlog(unsigned k) {
    struct row *c = row_dup(master[k % 3000]);
    c->key ^= 1;
    if (rnd() % 2)
        send_later(c);
    else /* already applied */
        lost_ += c->n;
}
NOINLINE int merge_peer(unsigned k) {
    struct row *c = row_dup(master[k % 3000]);
    c->cells[1] = k;
    if (rnd() % 3 == 0) { /* the peer's copy is newer */
        lost_ += c->n;
        return 0;
    }
    send_later(c);
    return 1;
}
int main(void) {
    double t0 = now();
    unsigned merged = 0;
    for (int i = 0; i < 3000; i++) {
        unsigned n = rng(200, 1500);
        master[i] = calloc(1, sizeof(struct row) + n);
        memset(master[i]->cells, i, n);
        master[i]->n = n;
    }
    while (now() - t0 < RUN_LIMIT) {
        for (int i = 0; i < 36; i++)
            serve_query(rnd());
        for (int i = 0; i < 11; i++)
            replay_backlog(rnd());
        for (int i = 0; i < 14; i++)
            merged += merge_peer(rnd());
        bystanders(20);
        truth();
        nap(10);
    }
    return merged == 1;
}
