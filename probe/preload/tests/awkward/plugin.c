// Opened and closed by dlopen.c: allocates from code that goes away.
#include <stdlib.h>

void *plugin_take(size_t bytes) { return malloc(bytes); }

__attribute__((constructor)) static void opened(void) { free(malloc(12345)); }
__attribute__((destructor)) static void closed(void) { free(malloc(12345)); }
