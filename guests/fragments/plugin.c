// A plugin, compiled in several sizes: PAD bytes of code before its work, FRAME bytes of stack in it.
#include <stdlib.h>
#include <string.h>

#ifndef PAD
#define PAD 16
#endif
#ifndef FRAME
#define FRAME 16
#endif

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

__asm__(".pushsection .text.pad,\"ax\",@progbits\n.fill " TEXT(PAD) ",1,0x90\n ret\n.popsection\n");

static void *kept;
static volatile int calls;

__attribute__((constructor)) static void opened(void) { kept = malloc(200000); }
__attribute__((destructor)) static void closed(void) { free(kept); }

__attribute__((noinline)) void *deeper(size_t bytes, int depth) {
    volatile char frame[FRAME];
    frame[depth % FRAME] = 1;
    void *block = depth ? deeper(bytes, depth - 1) : malloc(bytes);
    calls += frame[depth % FRAME];
    return block;
}

void *work(size_t bytes) {
    void *block = deeper(bytes, 3);
    if (block && bytes) memset(block, 1, bytes > 64 ? 64 : bytes);
    return block;
}

// Frees what `work` gave, by the free of this library's name space.
void done(void *block) { free(block); }
