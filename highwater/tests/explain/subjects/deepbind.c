/* Hands its requests to a library that was opened with RTLD_DEEPBIND, whose free is the C library's own, and loses
 * blocks of 2000 bytes besides. The library's path comes first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS 40

static void *request_buffer(void)
{
    return malloc(3000);
}

static void *lose_session(void)
{
    return malloc(2000);
}

int main(int count, char **words)
{
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    void (*take)(void *) = library ? (void (*)(void *))dlsym(library, "take") : NULL;
    if (!take)
        return 1;
    for (;;) {
        for (int request = 0; request < REQUESTS; request++)
            take(memset(request_buffer(), 1, 3000));
        memset(lose_session(), 1, 2000);
        usleep(2000);
    }
}
