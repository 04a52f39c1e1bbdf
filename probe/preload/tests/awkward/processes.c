// vfork, posix_spawn, a fork that the C library does not see, and exec: none may harm the parent's counts.
#define _GNU_SOURCE
#include "truth.h"
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static void wait_for(pid_t child) {
    int status;
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        // The program after exec: it has a probe of its own.
        void *volatile block = malloc(500);
        free(block);
        return 0;
    }
    void *kept[100];
    mark();
    for (int at = 0; at < 100; at++) {
        kept[at] = took(malloc(5000));
        pid_t child = vfork();
        if (child == 0) {
            execl(argv[0], argv[0], "again", (char *)NULL);
            _exit(97);
        }
        wait_for(child);
        if (at % 10) continue;
        char *arguments[] = {argv[0], "again", NULL};
        MUST(posix_spawn(&child, argv[0], NULL, NULL, arguments, environ) == 0);
        wait_for(child);
        child = syscall(SYS_fork);
        if (child == 0) {
            for (int block = 0; block < 1000; block++) free(malloc(10000));
            _exit(0);
        }
        wait_for(child);
    }
    for (int at = 0; at < 50; at++) free(gives(kept[at]));
    mark();
    return 0;
}
