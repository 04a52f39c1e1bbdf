// Confines itself and allocates on. Usage: confined strict | kill | thread | twice | together. With "twice" a second filter comes
// behind one that forbids a system call of the probe's. With "kill" each system call that is not
// needed for this ends the process; with "thread" the filter is installed by number, and a new thread allocates; with
// "together" it is installed for threads in the middle of it.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void *churn(void *rounds) {
    void *blocks[64];
    for (long round = 0; round < (long)rounds; round++) {
        for (int each = 0; each < 64; each++) memset(blocks[each] = malloc(1000), 1, 8);
        for (int each = 0; each < 64; each++) free(blocks[each]);
    }
    return NULL;
}

static atomic_int running;

static void *allocate(void *unused) {
    running++;
    void *volatile block;
    for (;;) free(block = malloc(100000));
    return unused;
}

static struct sock_filter without_masks[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog no_masks = {sizeof without_masks / sizeof *without_masks, without_masks};

// Processes of so many that the filter ended.
static int ended_together(int processes) {
    int ended = 0;
    for (int each = 0; each < processes; each++) {
        int child = fork(), status;
        if (child == 0) {
            pthread_t made;
            for (int thread = 0; thread < 3; thread++) pthread_create(&made, NULL, allocate, NULL);
            while (running < 3) usleep(200);
            if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &no_masks)) _exit(1);
            usleep(2000);
            _exit(0);
        }
        waitpid(child, &status, 0);
        ended += status != 0;
    }
    return ended;
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    // Each block is a sample then, so that threads are in the middle of one.
    if (!strcmp(argv[1], "together") && !getenv("HIGHWATER_PROBE_MEAN")) {
        setenv("HIGHWATER_PROBE_MEAN", "1", 1);
        setenv("HIGHWATER_PROBE_BUDGET", "0", 1);
        return execv("/proc/self/exe", argv);
    }
    churn((void *)20);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise), ALLOW(SYS_brk), ALLOW(SYS_futex), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_rt_sigaction),
        ALLOW(SYS_clone), ALLOW(SYS_clone3), ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq), ALLOW(SYS_gettid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    if (!strcmp(argv[1], "strict") && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
    if (!strcmp(argv[1], "kill") && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 4;
    if (!strcmp(argv[1], "thread") && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 5;
    if (!strcmp(argv[1], "twice")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &no_masks)) return 7;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &no_masks)) return 8;
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &no_masks)) return 9;
    }
    if (!strcmp(argv[1], "together")) {
        printf("%d ended\n", ended_together(40));
        return 0;
    }
    churn((void *)200);
    if (!strcmp(argv[1], "thread")) {
        pthread_t other;
        if (pthread_create(&other, NULL, churn, (void *)200)) return 6;
        pthread_join(other, NULL);
    }
    write(1, "ended well\n", 11);
    syscall(SYS_exit, 0);
}
