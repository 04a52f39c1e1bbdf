#include <stdlib.h>
#include <string.h>
/* a cache of glyphs on libc's heap: 12000 of them, any one replaced at random: flat */
static char *glyph[12000];
void glyph_rasterize(unsigned k, unsigned n) {
    k %= 12000;
    free(glyph[k]);
    glyph[k] = malloc(n);
    memset(glyph[k], k, n);
}
