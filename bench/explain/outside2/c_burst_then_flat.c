// geo index: loaded in the first 8 s (150 MB), then served with updates in place: nothing grows any more
#include "util.h"
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
    double t0 = now();
    unsigned loaded = 0, q = 0;
    while (now() - t0 < RUN_LIMIT) {
        if (loaded < N) {
            for (int k = 0; k < 80 && loaded < N; k++, loaded++)
                cell[loaded] = load_cell(loaded);
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
        truth();
        nap(10);
    }
    return 0;
}
