/* What a recorder could disturb: threads that come and go, fork, exec, dlopen and dlclose, signal handlers that
 * allocate, every form of allocation, errno. Prints what it saw; the same with and without. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    free(malloc(100));
    handled++;
}

static void *thread(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    void *blocks[100] = {0};
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525 + 1013904223;
        unsigned at = (seed >> 10) % 100;
        if (seed % 5 == 0) {
            blocks[at] = realloc(blocks[at], 1 + (seed >> 16) % 70000);
        } else {
            free(blocks[at]);
            blocks[at] = calloc(1, 1 + (seed >> 16) % 900);
        }
    }
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    return argument;
}

static void forms(void)
{
    void *aligned = NULL;
    errno = 77;
    int failed = posix_memalign(&aligned, 4096, 100);
    printf("posix_memalign %d %d\n", failed, (int)((uintptr_t)aligned % 4096));
    free(aligned);
    printf("errno %d\n", errno);
    void *others[] = {memalign(64, 10), aligned_alloc(256, 512), valloc(1), reallocarray(NULL, 3, 5)};
    for (int i = 0; i < 4; i++) {
        printf("form %d: %d %d\n", i, others[i] != NULL, malloc_usable_size(others[i]) >= 1);
        free(others[i]);
    }
    errno = 0;
    volatile size_t huge = SIZE_MAX / 2;
    printf("huge %d", malloc(huge) == NULL);
    printf(" %s\n", strerror(errno));
    printf("array %d\n", reallocarray(NULL, huge, 4) == NULL);
    free(NULL);
    printf("zero %d\n", realloc(malloc(10), 0) == NULL);
}

static int child(void (*make)(void))
{
    fflush(stdout);
    pid_t made = fork();
    if (made == 0) {
        make();
        fflush(stdout);
        _exit(9);
    }
    int status = 0;
    waitpid(made, &status, 0);
    return WEXITSTATUS(status);
}

static void in_child(void)
{
    pthread_t made;
    pthread_create(&made, NULL, thread, (void *)5);
    pthread_join(made, NULL);
    printf("child allocates\n");
}

static void executes(void)
{
    execl("/bin/echo", "echo", "executed", (char *)NULL);
}

int main(int count, char **arguments)
{
    pthread_t made[8];
    signal(SIGALRM, handler);
    signal(SIGUSR1, handler);
    forms();
    for (int round = 0; round < 3; round++) {
        for (uintptr_t i = 0; i < 8; i++)
            pthread_create(&made[i], NULL, thread, (void *)(i + 1));
        for (int i = 0; i < 8; i++)
            pthread_join(made[i], NULL);
    }
    for (int i = 0; i < 50; i++)
        raise(SIGUSR1);
    printf("handled %d\n", (int)handled);
    printf("fork %d\n", child(in_child));
    printf("exec %d\n", child(executes));
    /* A fork that the C library does not see. */
    fflush(stdout);
    long raw = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (raw == 0) {
        for (int i = 0; i < 1000; i++)
            free(malloc(i));
        _exit(4);
    }
    int status = 0;
    waitpid((pid_t)raw, &status, 0);
    printf("clone %d\n", WEXITSTATUS(status));
    void *library = dlopen("libm.so.6", RTLD_NOW);
    printf("dlopen %d dlclose %d\n", library != NULL, library ? dlclose(library) : -1);
    printf("next descriptor %d\n", dup(0));
    if (count > 1)
        usleep(1000 * atoi(arguments[1]));
    return 23;
}
