// Children of every kind. Each is waited for.
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// around in_fork(unused: 0)
void in_fork(body inner, long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        inner();
        _exit(3);
    }
    say_end("in_fork", child);
}

// A child without the fork handlers of the C library: it may allocate when no other thread did.
// step bare_fork(bytes: 100 100000 1..300000) not in among_threads
void bare_fork(long bytes) {
    int child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) syscall(SYS_exit_group, (int)churn(100, bytes));
    say_end("bare_fork", child);
}

// step exits_in_vfork(bytes: 100 100000 1..300000)
void exits_in_vfork(long bytes) {
    volatile long faults = 0;
    int child = vfork();
    if (child == 0) {
        faults = churn(50, bytes);
        _exit(4);
    }
    say_end("exits_in_vfork", child);
    say("exits_in_vfork: %ld faults", faults);
}

static char self[] = "/proc/self/exe", word[] = "again", missing[] = "/nowhere/at/all";

// step spawned(kind: 0 1 2) not in without_call
void spawned(long kind) {
    char *arguments[] = {self, word, NULL}, *nothing[] = {NULL};
    int child = -1, code = posix_spawn(&child, kind == 1 ? missing : self, NULL, NULL, arguments, kind == 2 ? nothing : environ);
    // The child prints as well: this line comes after its end.
    if (code == 0) say_end("spawned", child);
    say("spawned: code %d", code);
}

// step executed(kind: 0 1 2) not in without_call
void executed(long kind) {
    char *arguments[] = {self, word, NULL}, *nothing[] = {NULL};
    int child = kind == 0 ? vfork() : fork();
    if (child == 0) {
        execve(kind == 1 ? missing : self, arguments, kind == 2 ? nothing : environ);
        _exit(5);
    }
    say_end("executed", child);
}

// step shell(unused: 0) not in without_call
void shell(long unused) {
    (void)unused;
    int status = system("exit 6");
    say("shell: %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    FILE *pipe = popen("echo word", "r");
    char line[20] = "";
    if (pipe && fgets(line, sizeof line, pipe)) line[4] = 0;
    say("shell: %s, %d", line, pipe ? pclose(pipe) : -1);
}

// The child that stays is an orphan; the pipe tells when it has ended.
// In a new PID namespace the child is its init, and the orphan ends with it.
// step orphaned(bytes: 100 100000) not in in_namespaces
void orphaned(long bytes) {
    int ends[2];
    if (pipe(ends)) return;
    int child = fork();
    if (child == 0) {
        if (fork() == 0) {
            char fault = churn(100, bytes) != 0;
            if (write(ends[1], &fault, 1) != 1) _exit(1);
            _exit(0);
        }
        _exit(8);
    }
    close(ends[1]);
    char fault = 9, more = 9;
    long got = read(ends[0], &fault, 1);
    long rest = read(ends[0], &more, 1);
    close(ends[0]);
    say("orphaned: %ld %d %ld", got, fault, rest);
    say_end("orphaned", child);
}

static volatile long handler_bytes, handler_faults;
static void before_fork(void) { handler_faults += churn(10, handler_bytes); }
static void after_fork(void) { handler_faults += churn(10, handler_bytes); }

// Handlers of fork stay for the life of the process.
// step with_fork_handlers(bytes: 100 1..100000)
void with_fork_handlers(long bytes) {
    static int is_registered;
    handler_bytes = bytes;
    handler_faults = 0;
    if (!is_registered) pthread_atfork(before_fork, after_fork, after_fork);
    is_registered = 1;
    int child = fork();
    if (child == 0) _exit(handler_faults ? 1 : 2);
    say_end("with_fork_handlers", child);
    say("with_fork_handlers: %ld faults", handler_faults);
}

static long daemonise(long bytes) {
    int ends[2];
    char got[2] = "";
    if (pipe(ends)) return -1;
    int child = fork();
    if (child == 0) {
        close(ends[0]);
        if (daemon(0, 0)) _exit(3);
        char result = churn(100, bytes) ? 'f' : 'g';
        if (write(ends[1], &result, 1) != 1) _exit(4);
        _exit(0);
    }
    close(ends[1]);
    say_end("daemonised", child);
    long length = read(ends[0], got, 1), rest = read(ends[0], got + 1, 1);
    close(ends[0]);
    say("daemonised: %ld %s %ld", length, got, rest);
    return rest;
}

// The daemon becomes a child of a child, which waits for it.
// step daemonised(bytes: 100 1..100000) not in in_namespaces
void daemonised(long bytes) {
    int child = fork();
    if (child == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        daemonise(bytes);
        while (wait(NULL) > 0) {}
        _exit(6);
    }
    say_end("daemonised", child);
}

// step spawned_with(kind: 0 1 2) not in without_call
void spawned_with(long kind) {
    char *arguments[] = {self, word, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int child = -1;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int each = 0; each < 20; each++) posix_spawn_file_actions_addclose(&actions, 100 + each);
    if (kind == 1) posix_spawn_file_actions_addopen(&actions, 0, "/nowhere/file", O_RDONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &none);
    posix_spawnattr_setflags(&attributes, kind == 2 ? POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_RESETIDS : POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawn(&child, self, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (code == 0) say_end("spawned_with", child);
    say("spawned_with: code %d", code);
}

// In a new PID namespace the first one ends when all others have been waited for.
// step many_children(count: 1..15, bytes: 100 1..100000) not in in_namespaces
void many_children(long count, long bytes) {
    int made[15];
    long right = 0;
    void *block = malloc(bytes);
    for (long each = 0; each < count; each++) {
        made[each] = fork();
        if (made[each] == 0) {
            free(block);
            _exit(churn(30, bytes) ? 1 : 10 + (int)each);
        }
    }
    for (long each = 0; each < count; each++) {
        int status = 0;
        if (made[each] > 0 && waitpid(made[each], &status, 0) == made[each])
            right += WIFEXITED(status) && WEXITSTATUS(status) == 10 + each;
    }
    free(block);
    say("many_children: %ld", right);
}
