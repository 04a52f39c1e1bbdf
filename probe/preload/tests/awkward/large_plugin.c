// A library whose code and tables cover some megabytes.
#include <stdlib.h>

static volatile int calls;

__attribute__((noinline)) void *plugin_take(size_t bytes) {
    void *block = malloc(bytes);
    calls++;
    return block;
}

__asm__(".pushsection .text\n.globl padding\npadding:\n.fill 4194304,1,0x90\n ret\n.popsection\n"
        ".pushsection .rodata\n.fill 1048576,1,0x11\n.popsection\n");
