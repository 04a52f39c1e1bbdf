// Who the process is, and what it may call: single system calls refused, rights dropped, /proc out of sight, a tracer.
#include "guest.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Calls that an allocator and this program do well without, one of which is refused.
static const int refused[] = {SYS_gettid, SYS_getpid, SYS_mincore, SYS_process_vm_readv, SYS_prctl, SYS_memfd_create,
                              SYS_open, SYS_openat, SYS_clock_gettime, SYS_getrandom, SYS_prlimit64, SYS_sched_yield,
                              SYS_tgkill, SYS_munlock, SYS_membarrier, SYS_rt_sigprocmask, SYS_madvise, SYS_mprotect};
static const unsigned actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_TRAP};

static int refuse(int number, unsigned action, int by_number, unsigned flags) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return by_number ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program)
                     : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// A program that starts under such a filter is a limit of the probe (docs/explanation/safety.md, sandboxes): none is started in it.
// Not SECCOMP_RET_KILL_THREAD: another thread may wait for one that is gone.
// around without_call(which: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17, action: 0 1 2, by_number: 0 1)
void without_call(body inner, long which, long action, long by_number) {
    int child = fork();
    if (child == 0) {
        churn(10, 1000);
        if (refuse(refused[which], actions[action], (int)by_number, 0)) _exit(2);
        say("without_call: %ld faults", churn(300, 1000));
        inner();
        say("without_call: %ld faults at the end", churn(30, 300000));
        syscall(SYS_exit_group, 9);
    }
    say_end("without_call", child);
}

static volatile int goes_on;
static void *goes_on_allocating(void *bytes) {
    long faults = 0;
    while (goes_on) faults += churn(20, (long)bytes);
    return (void *)faults;
}

// One filter for all threads at once, while they allocate.
// step synchronised(threads: 1 3, bytes: 100 1..50000, which: 0 2 3 4 5 8 10) not in without_call
void synchronised(long threads, long bytes, long which) {
    int child = fork();
    if (child == 0) {
        pthread_t made[3];
        long started = 0, faults = 0;
        goes_on = 1;
        for (long each = 0; each < threads; each++)
            started += pthread_create(&made[started], NULL, goes_on_allocating, (void *)bytes) == 0;
        int code = refuse(refused[which], SECCOMP_RET_KILL_PROCESS, 1, SECCOMP_FILTER_FLAG_TSYNC);
        faults += churn(300, bytes);
        goes_on = 0;
        for (long each = 0; each < started; each++) {
            void *result = NULL;
            pthread_join(made[each], &result);
            faults += (long)result;
        }
        say("synchronised: code %d, %ld faults", code, faults);
        syscall(SYS_exit_group, 9);
    }
    say_end("synchronised", child);
}

// around without_rights(kind: 0 1 2)
void without_rights(body inner, long kind) {
    int child = fork();
    if (child == 0) {
        int code = 0;
        if (kind == 0) {
            struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
            struct __user_cap_data_struct none[2] = {{0}};
            code = syscall(SYS_capset, &head, none);
        } else if (kind == 1) {
            for (int each = 0; each < 40; each++) prctl(PR_CAPBSET_DROP, (unsigned long)each);
            code = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        } else {
            prctl(PR_SET_KEEPCAPS, 1L);
            code = setresgid(2000, 2000, 2000) || setresuid(2000, 2000, 2000);
        }
        say("without_rights: %d", code);
        inner();
        _exit(9);
    }
    say_end("without_rights", child);
}

// around without_proc(unused: 0) not in in_root filtered without_call
void without_proc(body inner, long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        int code = unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || umount2("/proc", MNT_DETACH);
        say("without_proc: %d", code);
        inner();
        _exit(9);
    }
    say_end("without_proc", child);
}

// around in_session(unused: 0)
void in_session(body inner, long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        int code = setsid() < 0;
        say("in_session: %d", code);
        inner();
        _exit(9);
    }
    say_end("in_session", child);
}

// Memory that is written never becomes code, from here on.
// around write_xor_execute(unused: 0)
void write_xor_execute(body inner, long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        int code = prctl(65 /* PR_SET_MDWE */, 1UL, 0UL, 0UL, 0UL);
        say("write_xor_execute: %d", code);
        inner();
        _exit(9);
    }
    say_end("write_xor_execute", child);
}

// step traced(stops: 1..6, bytes: 100 1..300000) not in without_call
void traced(long stops, long bytes) {
    int child = fork(), status = 0;
    if (child == 0) {
        long code = ptrace(PTRACE_TRACEME, 0, NULL, NULL), faults = 0;
        for (long each = 0; code == 0 && each < stops; each++) {
            raise(SIGSTOP);
            faults += churn(50, bytes);
        }
        _exit(faults ? 1 : 6);
    }
    long seen = 0;
    while (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        seen += WSTOPSIG(status) == SIGSTOP;
        if (WSTOPSIG(status) != SIGSTOP) say("traced: stopped by %d", WSTOPSIG(status));
        ptrace(PTRACE_CONT, child, NULL, NULL);
    }
    say("traced: %ld stops, ended %d with %d", seen, WIFEXITED(status), WEXITSTATUS(status));
}

// step same_addresses(unused: 0) not in in_root without_proc without_call
void same_addresses(long unused) {
    (void)unused;
    int child = fork();
    if (child == 0) {
        char self[] = "/proc/self/exe", word[] = "again", *arguments[] = {self, word, NULL};
        extern char **environ;
        personality(ADDR_NO_RANDOMIZE);
        execve(self, arguments, environ);
        _exit(5);
    }
    say_end("same_addresses", child);
}
