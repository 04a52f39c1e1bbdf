// Plugins that come and go, and generated code, also where a closed library was.
#include "guest.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void *(*work_of)(size_t);

static void *open_plugin(long kind, int flags, work_of *work) {
    char path[4096];
    void *handle = dlopen(plugin_path(kind, path, sizeof path), flags);
    *work = handle ? (work_of)dlsym(handle, "work") : NULL;
    return handle;
}

static long use(work_of work, long bytes) {
    long got = 0;
    for (int each = 0; each < 30; each++) {
        void *block = work(bytes);
        got += block != NULL;
        free(block);
    }
    return got;
}

// step plugin(kind: 0 1 2 3, rounds: 1 4, bytes: 100 300000 1..2000000)
void plugin(long kind, long rounds, long bytes) {
    long got = 0;
    for (long round = 0; round < rounds; round++) {
        work_of work;
        void *handle = open_plugin(kind, RTLD_NOW | RTLD_LOCAL, &work);
        if (!handle) {
            say("plugin: not opened");
            return;
        }
        got += use(work, bytes);
        dlclose(handle);
    }
    say("plugin: %ld", got);
}

static int refuse(struct dl_phdr_info *info, size_t bytes, void *given) {
    (void)bytes;
    *(int *)given += strstr(info->dlpi_name, "/plugin") != NULL;
    free(malloc(10000));
    return 0;
}

// step plugin_amid(kind: 0 1 2 3, how: 0 1 2 3) not in amid
void plugin_amid(long kind, long how) {
    work_of work;
    char path[4096];
    void *handle = how == 1 ? dlmopen(LM_ID_NEWLM, plugin_path(kind, path, sizeof path), RTLD_NOW)
                            : dlopen(plugin_path(kind, path, sizeof path), how == 2 ? RTLD_LAZY | RTLD_GLOBAL : RTLD_NOW | (how == 3 ? RTLD_DEEPBIND : 0));
    work = handle ? (work_of)dlsym(handle, "work") : NULL;
    if (!work) {
        say("plugin_amid: not opened");
        return;
    }
    // A block of another name space belongs to another allocator, and so does one that is taken past a preloaded one
    // (RTLD_DEEPBIND): it stays there.
    int is_strange = how == 1 || (how == 3 && has_other_allocator());
    long got = is_strange ? work(300000) != NULL : use(work, 300000);
    int seen = 0;
    dl_iterate_phdr(refuse, &seen);
    Dl_info about;
    say("plugin_amid: %ld, %d seen, dladdr %d", got, seen, dladdr((void *)work, &about));
    dlclose(handle);
}

// step not_there(unused: 0)
void not_there(long unused) {
    (void)unused;
    void *handle = dlopen("/nowhere/plugin.so", RTLD_NOW);
    say("not_there: %d, message %d, then %d", handle != NULL, dlerror() != NULL, dlerror() != NULL);
    say("not_there: symbol %d, message %d", dlsym(RTLD_DEFAULT, "no_such_symbol") != NULL, dlerror() != NULL);
}

// A second plugin at the place of a closed one, among `buffers` other mappings.
// step reopened(first: 0 1 2 3, second: 0 1 2 3, buffers: 0 1 3 5, bytes: 1000 1048576)
void reopened(long first, long second, long buffers, long bytes) {
    work_of work;
    void *handle = open_plugin(first, RTLD_NOW, &work), *buffer[8];
    if (!handle) {
        say("reopened: not opened");
        return;
    }
    long got = use(work, bytes);
    dlclose(handle);
    for (long each = 0; each < buffers; each++)
        buffer[each] = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handle = open_plugin(second, RTLD_NOW, &work);
    for (long each = 0; each < buffers; each++) munmap(buffer[each], 1 << 20);
    got += use(work, bytes);
    dlclose(handle);
    say("reopened: %ld", got);
}

#ifdef __x86_64__
// rdi: bytes, rsi: malloc, rdx: whatever the code wants.
static const unsigned char with_frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
static const unsigned char without_frame[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x08, 0xc3};
static const unsigned char large_frame[] = {0x48, 0x81, 0xec, 0x08, 0x10, 0, 0, 0xff, 0xd6, 0x48, 0x81, 0xc4, 0x08, 0x10, 0, 0, 0xc3};
static const unsigned char strange_rbp[] = {0x55, 0x48, 0x89, 0xd5, 0xff, 0xd6, 0x5d, 0xc3};
static const unsigned char jumps[] = {0xff, 0xe6};
static const unsigned char own_stack[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xd4, 0xff, 0xd6, 0x48, 0x89, 0xec, 0x5d, 0xc3};
static const unsigned char own_stack_and_rbp[] = {0x55, 0x53, 0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xe3, 0x48, 0x89, 0xd4, 0x48, 0x89,
                                                  0xd5, 0xff, 0xd6, 0x48, 0x89, 0xdc, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3};

static long run_code(char *place, long kind, long at_end, long bytes) {
    static const struct { const unsigned char *code; size_t bytes; } all[] = {
        {with_frame, sizeof with_frame}, {without_frame, sizeof without_frame}, {large_frame, sizeof large_frame},
        {strange_rbp, sizeof strange_rbp}, {jumps, sizeof jumps}, {own_stack, sizeof own_stack},
        {own_stack_and_rbp, sizeof own_stack_and_rbp}, {strange_rbp, sizeof strange_rbp}};
    char *code = at_end ? place + 4096 - all[kind].bytes : place;
    memcpy(code, all[kind].code, all[kind].bytes);
    // A stack with nothing above it.
    char *stack = mmap(NULL, 1 << 18, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack, (1 << 18) - 4096, PROT_READ | PROT_WRITE);
    uintptr_t top = (uintptr_t)stack + (1 << 18) - 4096;
    uintptr_t third = kind == 3 ? 1 : kind == 7 ? top + 8 : top;
    void *(*run)(size_t, void *(*)(size_t), uintptr_t);
    memcpy(&run, &code, sizeof run);
    long got = 0;
    for (int each = 0; each < 30; each++) {
        void *block = run(bytes, malloc, third);
        got += block != NULL;
        free(block);
    }
    munmap(stack, 1 << 18);
    return got;
}

// step generated(kind: 0 1 2 3 4 5 6 7, at_end: 0 1, bytes: 1000 1048576)
void generated(long kind, long at_end, long bytes) {
    char *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long got = run_code(place, kind, at_end, bytes);
    munmap(place, 4096);
    say("generated: %ld", got);
}

// step generated_at_closed(plugin: 0 1 2 3, kind: 0 1 2 3 4 5 6 7, bytes: 1000 1048576)
void generated_at_closed(long plugin, long kind, long bytes) {
    work_of work;
    void *handle = open_plugin(plugin, RTLD_NOW, &work);
    if (!handle) {
        say("generated_at_closed: not opened");
        return;
    }
    long got = use(work, bytes);
    char *place = (char *)((uintptr_t)work & ~4095UL);
    dlclose(handle);
    char *code = mmap(place, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (code == MAP_FAILED) code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    got += run_code(code, kind, 0, bytes);
    munmap(code, 4096);
    say("generated_at_closed: %ld", got);
}

// The code goes while its caller's record may stay; then a plugin comes.
// step generated_among(plugin: 0 1 2 3, kind: 0 1 2 3 4, buffers: 0 2 5)
void generated_among(long plugin, long kind, long buffers) {
    work_of work;
    void *handle = open_plugin(plugin, RTLD_NOW, &work), *buffer[8];
    if (!handle) {
        say("generated_among: not opened");
        return;
    }
    long got = use(work, 1 << 20);
    dlclose(handle);
    for (long each = 0; each < buffers; each++)
        buffer[each] = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *code = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long each = 0; each < buffers; each++) munmap(buffer[each], 1 << 20);
    got += run_code(code, kind, 0, 1 << 20);
    munmap(code, 65536);
    say("generated_among: %ld", got);
}
#else
void generated(long kind, long at_end, long bytes) { say("generated: %ld %ld %ld", kind, at_end, bytes); }
void generated_at_closed(long plugin, long kind, long bytes) { say("generated: %ld %ld %ld", plugin, kind, bytes); }
void generated_among(long plugin, long kind, long buffers) { say("generated: %ld %ld %ld", plugin, kind, buffers); }
#endif
