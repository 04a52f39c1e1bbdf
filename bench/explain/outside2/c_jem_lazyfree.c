// nightly exporter: every 3 s a sheet of 256 KB tiles, each sheet larger than the last, freed after 0.5 s. Run under jemalloc with
// muzzy decay off and its background thread on: freed pages are MADV_FREEd and stay resident until the machine needs them. live stays flat between sheets
#include "util.h"
#define TILE (256 * 1024)
NOINLINE char *tile_new(unsigned v) {
    char *p = malloc(TILE);
    for (int i = 0; i < TILE; i += 1024)
        p[i] = v;
    return p;
}
int main(void) {
    static char *tile[2000], *row[3000];
    double t0 = now(), next = 2;
    int sheet = 0;
    while (now() - t0 < RUN_LIMIT) {
        if (now() - t0 > next) {
            next += 3;
            int n = 40 + 22 * sheet++;
            if (n > 1000)
                n = 1000;
            for (int i = 0; i < n; i++)
                tile[i] = tile_new(i);
            live_ = n * (long)TILE;
            nap(500);
            for (int i = 0; i < n; i++)
                free(tile[i]);
            live_ = 0;
        }
        for (int k = 0; k < 60; k++) {
            unsigned i = rnd() % 3000;
            free(row[i]);
            memset(row[i] = malloc(2500), 1, 2500);
        }
        truth();
        nap(20);
    }
    return 0;
}
