// Code at the addresses of a closed library: generated code at the same place, generated code nearby, a larger
// library. Each allocates blocks that are always sampled. x86_64 alone has the generated code.
// Usage: closed_code PLUGIN LARGER_PLUGIN MAPPINGS
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void *(*take_function)(size_t);

enum { BLOCK = 1 << 20, ROUNDS = 50, MAPPINGS_MAX = 16 };

static take_function opened(const char *path, void **library) {
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*library) exit(2);
    return (take_function)dlsym(*library, "plugin_take");
}

static void work(take_function take) {
    for (int round = 0; round < ROUNDS; round++) free(take(BLOCK));
}

// Calls the function in its second argument with its first.
static void work_by_generated_code(void *near) {
#ifdef __x86_64__
    static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
    void *at = (void *)((uintptr_t)near & ~(uintptr_t)0xffff);
    char *code = mmap(at, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) exit(3);
    memcpy(code, CODE, sizeof CODE);
    void *(*call)(size_t, void *) = (void *(*)(size_t, void *))code;
    for (int round = 0; round < ROUNDS; round++) free(call(BLOCK, malloc));
    munmap(code, 65536);
#endif
}

int main(int argc, char **argv) {
    if (argc < 4) return 1;
    int count = atoi(argv[3]);
    void *library, *mappings[MAPPINGS_MAX];
    take_function take = opened(argv[1], &library);
    work(take);
    dlclose(library);
    work_by_generated_code((void *)take);
    for (int at = 0; at < count; at++)
        mappings[at] = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    work_by_generated_code(NULL);
    void *larger;
    take_function take_larger = opened(argv[2], &larger);
    for (int at = 0; at < count; at++) munmap(mappings[at], BLOCK);
    work(take_larger);
    dlclose(larger);
    work_by_generated_code((void *)take_larger);
    puts("ended well");
    return 0;
}
