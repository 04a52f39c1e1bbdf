// A regular expression compiler puts code into mappings of its own and makes them executable. When a pattern is
// evicted its code is unmapped, except for hot patterns, which are compiled a second time.
#include "../common.h"
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
    unsigned id = 0;
    ready();
    for (;;) {
        struct code *c = &cache[id % 200];
        if (c->at && !c->hot)
            munmap(c->at, c->n);
        *c = emit_block(id++);
        serve_requests(50);
        nap(14);
    }
}
