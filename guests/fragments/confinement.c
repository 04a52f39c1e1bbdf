// What a program gives up: system calls, rights, its root, its descriptors. Each in a child of its own.
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// step strict(prepared: 0 64, bytes: 100 1000 20000) not in without_call
void strict(long prepared, long bytes) {
    // These return memory by the clock, by a call that ends the program: it depends on how fast it got there.
    if (has_other_allocator()) return say("strict: left out");
    int child = fork();
    if (child == 0) {
        // The heap is prepared: no system call of the allocator's is needed afterwards.
        void *blocks[1000];
        for (int each = 0; each < 1000; each++) memset(blocks[each] = malloc(bytes), 1, 8);
        for (int each = 0; each < 1000; each++) free(blocks[each]);
        churn(prepared, bytes);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(2);
        long faults = 0;
        for (int round = 0; round < 20; round++) faults += churn(500, bytes);
        say("strict: %ld faults", faults);
        syscall(SYS_exit, 9);
    }
    say_end("strict", child);
}

#define MAY(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// Allows what an allocator, threads and this program's own output need, and nothing else. (glibc reads
// /proc/sys/vm/overcommit_memory before it first shrinks a thread's arena: whether it does hangs on the heap's shape.)
static int filter(unsigned action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        MAY(SYS_write), MAY(SYS_exit), MAY(SYS_exit_group), MAY(SYS_brk), MAY(SYS_mmap), MAY(SYS_munmap), MAY(SYS_mremap),
        MAY(SYS_mprotect), MAY(SYS_madvise), MAY(SYS_futex), MAY(SYS_rt_sigreturn), MAY(SYS_rt_sigprocmask),
        MAY(SYS_rt_sigaction), MAY(SYS_clone), MAY(SYS_clone3), MAY(SYS_set_robust_list), MAY(SYS_rseq),
        MAY(SYS_sched_getaffinity), MAY(SYS_sigaltstack), MAY(SYS_wait4), MAY(SYS_tgkill), MAY(SYS_getpid), MAY(SYS_gettid),
        MAY(SYS_prlimit64), MAY(SYS_gettimeofday), MAY(SYS_setitimer), MAY(SYS_openat), MAY(SYS_read), MAY(SYS_close),
        BPF_STMT(BPF_RET | BPF_K, action),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// around filtered(action: 0 1 2)
void filtered(body inner, long action) {
    static const unsigned actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_ERRNO | EPERM};
    int child = fork();
    if (child == 0) {
        churn(10, 1000);
        if (filter(actions[action])) _exit(2);
        say("filtered: %ld faults", churn(300, 1000));
        inner();
        say("filtered: %ld faults at the end", churn(30, 300000));
        syscall(SYS_exit_group, 9);
    }
    say_end("filtered", child);
}

// around as_other_user(user: 65534 1000)
void as_other_user(body inner, long user) {
    int child = fork();
    if (child == 0) {
        errno = 0;
        int code = setgid(user) || setuid(user);
        say("as_other_user: %d, errno %d", code, errno);
        inner();
        _exit(9);
    }
    say_end("as_other_user", child);
}

// around in_root(unused: 0)
void in_root(body inner, long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        errno = 0;
        // A folder with nothing in it: neither /proc nor /dev.
        int code = chroot("/proc/self/fdinfo") || chdir("/");
        say("in_root: %d, errno %d", code, errno);
        inner();
        _exit(9);
    }
    say_end("in_root", child);
}

// around undumpable(unused: 0)
void undumpable(body inner, long unused) {
    (void)unused;
    int code = prctl(PR_SET_DUMPABLE, 0);
    inner();
    say("undumpable: %d, then %d", code, prctl(PR_GET_DUMPABLE));
    prctl(PR_SET_DUMPABLE, 1);
}

// around in_namespaces(which: 0 1 2)
void in_namespaces(body inner, long which) {
    static const int flags[] = {CLONE_NEWNS, CLONE_NEWPID | CLONE_NEWIPC, CLONE_NEWUSER};
    int child = fork();
    if (child == 0) {
        errno = 0;
        int code = unshare(flags[which]);
        say("in_namespaces: %d, errno %d", code, errno);
        inner();
        _exit(9);
    }
    say_end("in_namespaces", child);
}

// A heap of another thread opens a file of /proc for a moment, when it shrinks.
// step closed_range(first: 3 5) not in among_threads amid
void closed_range(long first) {
    int pair[2];
    int made = pipe(pair);
    int code = syscall(SYS_close_range, (unsigned)first, ~0U, 0);
    say("closed_range: %d %d, %ld faults", made, code, churn(100, 100000));
    int next = open("/dev/null", O_RDONLY);
    say("closed_range: next is %d", next);
    if (next >= 0) close(next);
    if (first > 3) close(3), close(4);
}

// A daemon's start: every descriptor closed, standard ones kept aside.
// step closed_all(unused: 0)
void closed_all(long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        int kept = dup(1);
        for (int each = 0; each < 256; each++)
            if (each != kept) close(each);
        long faults = churn(200, 100000);
        dup2(kept, 1);
        say("closed_all: %ld faults", faults);
        _exit(9);
    }
    say_end("closed_all", child);
}
