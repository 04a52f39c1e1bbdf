/* Has a child that ignores SIGTERM and spins on a core, as the forked children of some allocators do.
   "group": the child stays in the process group. "leaves": it starts a session of its own.
   "hides": the same, with an empty environment. The child's pid is in the log. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void spin(void) {
    signal(SIGTERM, SIG_IGN);
    alarm(120); /* should the test fail, not for ever */
    for (volatile unsigned long turns = 0;; turns++) {
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "group";
    pid_t child;
    if (strcmp(how, "spin") == 0) {
        spin();
    }
    child = fork();
    if (child == 0) {
        if (strcmp(how, "group") != 0) {
            setsid();
        }
        if (strcmp(how, "hides") == 0) {
            char *arguments[] = {argv[0], "spin", NULL}, *nothing[] = {NULL};
            execve("/proc/self/exe", arguments, nothing);
        }
        spin();
    }
    printf("child %d\nready\n", (int)child);
    fflush(stdout);
    if (argc > 2 && strcmp(argv[2], "exit") == 0) {
        return 0; /* into the background, as a daemon */
    }
    pause();
    return 0;
}
