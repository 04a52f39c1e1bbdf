// The loader: libraries that load others, stay, are looked into, audited, or come and go in several threads.
#include "guest.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *library(const char *name, char *room, size_t bytes) {
    const char *folder = getenv("GUEST_PLUGINS");
    snprintf(room, bytes, "%s/%s", folder ? folder : ".", name);
    return room;
}

struct opening { long kind, rounds, bytes, got; };

static void *opens_again(void *given) {
    struct opening *opening = given;
    char path[4096];
    for (long round = 0; round < opening->rounds; round++) {
        void *handle = dlopen(plugin_path((opening->kind + round) % 4, path, sizeof path), RTLD_NOW);
        void *(*work)(size_t) = handle ? (void *(*)(size_t))dlsym(handle, "work") : NULL;
        for (int each = 0; work && each < 10; each++) {
            void *block = work(opening->bytes);
            opening->got += block != NULL;
            free(block);
        }
        if (handle) dlclose(handle);
    }
    return NULL;
}

// step reloaded(threads: 1..4, rounds: 1..8, bytes: 100 1..300000)
void reloaded(long threads, long rounds, long bytes) {
    pthread_t made[4];
    struct opening openings[4];
    long started = 0, got = 0;
    for (long each = 0; each < threads; each++) {
        openings[started] = (struct opening){each, rounds, bytes, 0};
        started += pthread_create(&made[started], NULL, opens_again, &openings[started]) == 0;
    }
    long faults = churn(300, bytes);
    for (long each = 0; each < started; each++) {
        pthread_join(made[each], NULL);
        got += openings[each].got;
    }
    say("reloaded: %ld, %ld faults", got, faults);
}

// step kept_open(kind: 0 1 2 3, how: 0 1 2) not in amid
void kept_open(long kind, long how) {
    char path[4096];
    plugin_path(kind, path, sizeof path);
    void *before = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *first = dlopen(path, RTLD_LAZY | (how == 1 ? RTLD_NODELETE : 0));
    void *second = dlopen(path, RTLD_NOW | (how == 2 ? RTLD_GLOBAL : 0));
    int same = first == second, code = first ? dlclose(first) : -1;
    void *(*work)(size_t) = second ? (void *(*)(size_t))dlsym(second, "work") : NULL;
    void *block = work ? work(100000) : NULL;
    if (second) dlclose(second);
    void *after = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    say("kept_open: %d %d %d %d %d", before != NULL, same, code, block != NULL, after != NULL);
    if (before) dlclose(before);
    if (after) dlclose(after);
    free(block);
}

// A library with an indirect function, data of each thread, and a constructor that opens a plugin.
// step parts(rounds: 1..4, threads: 0 1 3)
void parts(long rounds, long threads) {
    char path[4096];
    long sum = 0;
    for (long round = 0; round < rounds; round++) {
        void *handle = dlopen(library("parts.so", path, sizeof path), RTLD_NOW);
        if (!handle) {
            say("parts: not opened");
            return;
        }
        long (*chosen)(long) = (long (*)(long))dlsym(handle, "chosen");
        void *(*in_thread)(void *) = (void *(*)(void *))dlsym(handle, "local_in_thread");
        pthread_t made[3];
        long started = 0;
        for (long each = 0; each < threads; each++)
            started += pthread_create(&made[started], NULL, in_thread, (void *)(each + 1)) == 0;
        sum += chosen(round) + (long)in_thread((void *)5);
        for (long each = 0; each < started; each++) {
            void *result = NULL;
            pthread_join(made[each], &result);
            sum += (long)result;
        }
        dlclose(handle);
    }
    say("parts: %ld", sum);
}

static int visit(struct dl_phdr_info *info, size_t bytes, void *given) {
    (void)bytes;
    char *copy = strdup(info->dlpi_name);
    *(long *)given += strstr(copy, "libc.so") != NULL;
    free(copy);
    return 0;
}

// step looked_into(kind: 0 1 2 3)
void looked_into(long kind) {
    char path[4096], origin[4096];
    void *handle = dlopen(plugin_path(kind, path, sizeof path), RTLD_NOW);
    if (!handle) {
        say("looked_into: not opened");
        return;
    }
    struct link_map *map = NULL;
    Dl_info about;
    const ElfW(Sym) *symbol = NULL;
    long libraries = 0;
    size_t module = 9;
    int code = dlinfo(handle, RTLD_DI_LINKMAP, &map) + dlinfo(handle, RTLD_DI_ORIGIN, origin) + dlinfo(handle, RTLD_DI_TLS_MODID, &module);
    int found = dladdr1(dlsym(handle, "work"), &about, (void **)&symbol, RTLD_DL_SYMENT);
    Dl_serinfo size;
    Dl_serinfo *paths = dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0 ? malloc(size.dls_size) : NULL;
    free(paths);
    dl_iterate_phdr(visit, &libraries);
    void *old = dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.2.5"), *none = dlvsym(RTLD_DEFAULT, "memcpy", "NONE_1");
    say("looked_into: %d, %d, %d, %ld, %d %d", code, found, map && strstr(map->l_name, "plugin"), libraries, old != NULL, none != NULL);
    dlclose(handle);
}

// Each name space has an allocator of its own: blocks stay in theirs.
// step name_spaces(count: 1 2 4, bytes: 1000 1..300000) not in under_memory_limit locked
void name_spaces(long count, long bytes) {
    char path[4096];
    void *all[4];
    long got = 0;
    for (long each = 0; each < count; each++) {
        all[each] = dlmopen(LM_ID_NEWLM, plugin_path(each, path, sizeof path), RTLD_NOW);
        void *(*work)(size_t) = all[each] ? (void *(*)(size_t))dlsym(all[each], "work") : NULL;
        void (*done)(void *) = all[each] ? (void (*)(void *))dlsym(all[each], "done") : NULL;
        for (int round = 0; work && round < 20; round++) {
            void *block = work(bytes);
            got += block != NULL;
            done(block);
        }
    }
    for (long each = 0; each < count; each++)
        if (all[each]) dlclose(all[each]);
    say("name_spaces: %ld, %ld faults", got, churn(50, bytes));
}

extern char **environ;
// step audited(binds: 0 1) not in in_root without_call
void audited(long binds) {
    char path[4096], audit[5000], bind[] = "LD_BIND_NOW=1", self[] = "/proc/self/exe", word[] = "again";
    char *arguments[] = {self, word, NULL}, *all[64] = {NULL};
    int count = 0, child = -1;
    for (char **each = environ; *each && count < 60; each++) all[count++] = *each;
    snprintf(audit, sizeof audit, "LD_AUDIT=%s", library("audit.so", path, sizeof path));
    all[count++] = audit;
    if (binds) all[count++] = bind;
    all[count] = NULL;
    int code = posix_spawn(&child, self, NULL, NULL, arguments, all);
    if (code == 0) say_end("audited", child);
    say("audited: code %d", code);
}
