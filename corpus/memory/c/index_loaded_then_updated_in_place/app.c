// A geographic index: 150 MB are loaded before the program is ready, then cells are replaced one by one.
#include "../common.h"

#define N 60000
static char *cell[N];

NOINLINE char *load_cell(unsigned id) {
    size_t n = rng(1500, 3500);
    char *p = malloc(n);
    memset(p, id, n);
    return p;
}

int main(void) {
    static char *resp[800];
    unsigned loaded = 0, q = 0;
    for (;;) {
        if (loaded < N) {
            for (int k = 0; k < 80 && loaded < N; k++, loaded++)
                cell[loaded] = load_cell(loaded);
            if (loaded == N)
                ready();
        } else {
            for (int k = 0; k < 6; k++) {
                unsigned i = rnd() % N;
                free(cell[i]);
                cell[i] = load_cell(i);
            }
        }
        for (int k = 0; k < 10; k++) {
            char **r = &resp[q++ % 800];
            free(*r);
            *r = malloc(rng(500, 9000));
            memset(*r, 1, 500);
        }
        nap(10);
    }
}
