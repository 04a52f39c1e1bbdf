// A library with an indirect function, data of each thread, and a constructor that opens a plugin.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char room[3000] = "start";
static __thread long count = 3;
static void *plugin;

static long first(long value) { return value + count; }
static long second(long value) { return value - count; }
static long (*choose(void))(long) { return sizeof(void *) == 8 ? first : second; }
long chosen(long value) __attribute__((ifunc("choose")));

void *local_in_thread(void *given) {
    count += (long)given;
    char *block = malloc(100000);
    if (block) memcpy(block, room, sizeof room);
    long sum = count + (block ? block[0] == 's' : 0);
    free(block);
    return (void *)sum;
}

__attribute__((constructor)) static void opened(void) {
    char path[4096];
    const char *folder = getenv("GUEST_PLUGINS");
    snprintf(path, sizeof path, "%s/plugin0.so", folder ? folder : ".");
    plugin = dlopen(path, RTLD_NOW);
}

__attribute__((destructor)) static void closed(void) {
    if (plugin) dlclose(plugin);
}
