// An exporter. Every 3 s it builds a sheet of 256 KB tiles, each sheet larger than the last, and frees it after 0.5
// s. jemalloc gives the pages back by MADV_FREE, so that they stay resident until the machine needs them.
#include "../common.h"

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
    ready();
    for (;;) {
        if (now() - t0 > next) {
            next += 3;
            int n = 40 + 22 * sheet++;
            if (n > 1000)
                n = 1000;
            for (int i = 0; i < n; i++)
                tile[i] = tile_new(i);
            nap(500);
            for (int i = 0; i < n; i++)
                free(tile[i]);
        }
        for (int k = 0; k < 60; k++) {
            unsigned i = rnd() % 3000;
            free(row[i]);
            memset(row[i] = malloc(2500), 1, 2500);
        }
        nap(20);
    }
}
