// Starts itself again under a seccomp filter, as a launcher or a unit of systemd's does, and allocates there. Without
// arguments: once for each system call that a preloaded library might make, with a filter that ends the process for it.
// Prints how each ended. With "stay": under a filter that allows everything, for 6 s.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void churn(int rounds) {
    void *blocks[64];
    for (int round = 0; round < rounds; round++) {
        for (int each = 0; each < 64; each++) memset(blocks[each] = malloc(1000 + 300 * each), 1, 8);
        for (int each = 0; each < 64; each++) free(blocks[each]);
    }
}

static void confine(unsigned call) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(90);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(91);
}

static void start_again(unsigned call, char *word) {
    char self[] = "/proc/self/exe", *arguments[] = {self, word, NULL};
    confine(call);
    execv(self, arguments);
    _exit(92);
}

int main(int count, char **words) {
    static const unsigned calls[] = {
        SYS_gettid, SYS_getpid, SYS_tgkill, SYS_rt_sigprocmask, SYS_prctl, SYS_clock_gettime, SYS_nanosleep,
        SYS_munlock, SYS_mincore, SYS_madvise,
    };
    if (count > 1 && !strcmp(words[1], "stay")) start_again(9999, "churn");
    if (count > 1) {
        // Slowly: with "stay" somebody watches.
        struct timespec pause = {0, 2000000};
        int rounds = words[1][0] == 'c' ? 3000 : 1;
        for (int round = 0; round < rounds; round++) {
            churn(rounds > 1 ? 1 : 300);
            if (rounds > 1) clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        }
        return 0;
    }
    for (unsigned each = 0; each < sizeof calls / sizeof *calls; each++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) start_again(calls[each], "at_once");
        waitpid(child, &status, 0);
        printf("without call %u: %s %d\n", calls[each], WIFSIGNALED(status) ? "signal" : "code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return 0;
}
