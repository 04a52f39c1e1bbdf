// Children of every kind. Each is waited for.
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
// step bare_fork(bytes: 100 100000) not in among_threads
void bare_fork(long bytes) {
    int child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) syscall(SYS_exit_group, (int)churn(100, bytes));
    say_end("bare_fork", child);
}

// step exits_in_vfork(bytes: 100 100000)
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

// step spawned(kind: 0 1 2)
void spawned(long kind) {
    char *arguments[] = {self, word, NULL}, *nothing[] = {NULL};
    int child = -1, code = posix_spawn(&child, kind == 1 ? missing : self, NULL, NULL, arguments, kind == 2 ? nothing : environ);
    // The child prints as well: this line comes after its end.
    if (code == 0) say_end("spawned", child);
    say("spawned: code %d", code);
}

// step executed(kind: 0 1 2)
void executed(long kind) {
    char *arguments[] = {self, word, NULL}, *nothing[] = {NULL};
    int child = kind == 0 ? vfork() : fork();
    if (child == 0) {
        execve(kind == 1 ? missing : self, arguments, kind == 2 ? nothing : environ);
        _exit(5);
    }
    say_end("executed", child);
}

// step shell(unused: 0)
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
