// A library that compresses nothing, with the objects that such a library has.
#include <stdlib.h>
#include <string.h>
#include "press.h"
struct press { char *window; int *heads; int level; };
static void *room(size_t items, size_t size) { return calloc(items, size); }
struct press *press_open(int level) {
    struct press *p = room(1, sizeof *p);
    p->window = memset(room(1, 16000), 1, 16000); p->heads = memset(room(1000, sizeof *p->heads), 1, 4000); p->level = level;
    return p;
}
int press_feed(struct press *p, const char *text) { strcpy(p->window, text); return p->level; }
void press_close(struct press *p) { free(p->heads); free(p->window); free(p); }
void *codec_new(int kind) { int *c = malloc(1200); memset(c, kind, 1200); return c; }
int codec_kind(void *c) { return *(int *)c; }
