// Confines itself and allocates on. Usage: confined strict | kill | thread | twice. With "twice" a second filter comes
// behind one that forbids a system call of the probe's. With "kill" each system call that is not
// needed for this ends the process; with "thread" the filter is installed by number, and a new thread allocates.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

int main(int argc, char **argv) {
    if (argc < 2) return 1;
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
        struct sock_filter one[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog first = {sizeof one / sizeof *one, one};
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &first)) return 7;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &first)) return 8;
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &first)) return 9;
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
