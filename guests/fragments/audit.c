// An auditor of the loader: it is told of every library and binding, in a name space of its own, and allocates there.
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>

static volatile long seen;

unsigned la_version(unsigned version) {
    free(malloc(10000));
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)map, (void)space;
    *cookie = (uintptr_t)malloc(100);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name) {
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    seen++;
    return symbol->st_value;
}
