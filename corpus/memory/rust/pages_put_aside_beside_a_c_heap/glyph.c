// A cache of 12,000 glyphs on the C library's heap; any one is replaced, so it keeps its size.
#include <stdlib.h>
#include <string.h>

static char *glyphs[12000];

void glyph_rasterize(unsigned number, unsigned size) {
    number %= 12000;
    free(glyphs[number]);
    glyphs[number] = malloc(size);
    memset(glyphs[number], number, size);
}
