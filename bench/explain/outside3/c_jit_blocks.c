// regexp compiler: code is emitted into mappings of its own, made executable; when a pattern is evicted its code is unmapped, except for
// patterns that were "hot" and compiled a second time
#include "work.h"
#include <sys/mman.h>
struct code {
    void *at;
    size_t n;
    int hot;
};
static struct code cache[200];
NOINLINE struct code emit_block(unsigned id) {
    struct code c = {0, rng(8, 30) * 4096ul, rnd() % 3 == 0};
    c.at = mmap(0, c.n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(c.at, 0xc3, c.n);
    mprotect(c.at, c.n, PROT_READ | PROT_EXEC);
    return c;
}
int main(void) {
    double t0 = now();
    unsigned id = 0;
    while (now() - t0 < RUN_LIMIT) {
        struct code *c = &cache[id % 200];
        if (c->at && !c->hot)
            munmap(c->at, c->n);
        else
            lost_ += c->n;
        *c = emit_block(id++);
        bystanders(50);
        truth();
        nap(14);
    }
    return 0;
}
