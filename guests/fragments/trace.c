// The trace, and what is left at the end of a program.
#include "guest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void say(const char *format, ...) {
    char line[200];
    int errno_before = errno;
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length] = '\n';
    if (write(1, line, length + 1) < 0) _exit(99);
    errno = errno_before;
}

long churn(long count, long bytes) {
    enum { KEPT = 64 };
    int keeps_errno = !leaves_errno();
    unsigned char *kept[KEPT] = {0};
    long faults = 0;
    for (long round = 0; round < count + KEPT; round++) {
        unsigned char **slot = &kept[round % KEPT];
        if (*slot && bytes) {
            unsigned char mark = (unsigned char)(round % KEPT);
            faults += (*slot)[0] != mark || (*slot)[bytes - 1] != mark;
        }
        errno = 77;
        free(*slot);
        faults += keeps_errno && errno != 77;
        *slot = NULL;
        if (round >= count) continue;
        *slot = malloc(bytes);
        // Smaller blocks may be aligned to less (gperftools does).
        faults += (keeps_errno && errno != 77) || !*slot || (uintptr_t)*slot % (bytes < 16 ? 8 : 16);
        if (*slot && bytes) {
            (*slot)[0] = (unsigned char)(round % KEPT);
            (*slot)[bytes - 1] = (*slot)[0];
        }
    }
    return faults;
}

void say_end(const char *name, int child) {
    int status = 0;
    if (child < 0) {
        say("%s: no child, errno %d", name, errno);
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(status)) say("%s: child ended by signal %d", name, WTERMSIG(status));
    else say("%s: child ended with %d", name, WEXITSTATUS(status));
}

const char *plugin_path(long kind, char *room, size_t bytes) {
    const char *folder = getenv("GUEST_PLUGINS");
    snprintf(room, bytes, "%s/plugin%ld.so", folder ? folder : ".", kind);
    return room;
}

static int entries(const char *folder) {
    DIR *all = opendir(folder);
    if (!all) return -1;
    int count = 0;
    while (readdir(all)) count++;
    closedir(all);
    return count - 2;
}

void finish(void) {
    // The thread that a join waited for may be in the list for a moment longer.
    int tasks = 0;
    for (int wait = 0; wait < 2000 && (tasks = entries("/proc/self/task")) > 1; wait++) usleep(1000);
    say("left: %d threads, %d descriptors", tasks, entries("/proc/self/fd") - 1);
    int child = waitpid(-1, NULL, WNOHANG);
    say("left: children %s, errno %d", child < 0 ? "none" : "some", child < 0 ? errno : 0);
    char line[1024];
    int plugins = 0, writable_code = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        plugins += strstr(line, "/plugin") != NULL;
        writable_code += strstr(line, " rwx") != NULL;
    }
    if (maps) fclose(maps);
    say("left: %d mappings of plugins, %d of writable code", plugins, writable_code);
    FILE *status = fopen("/proc/self/status", "r");
    static const char *const fields[] = {"SigBlk", "SigIgn", "SigCgt", "Seccomp:", "NoNewPrivs", "Uid", "TracerPid"};
    while (status && fgets(line, sizeof line, status))
        for (unsigned field = 0; field < sizeof fields / sizeof *fields; field++)
            if (strncmp(line, fields[field], strlen(fields[field])) == 0) say("left: %.*s", (int)strcspn(line, "\n"), line);
    if (status) fclose(status);
}

// A page shared with the runner: waiting needs no descriptor, no path and no signal, so that it works whatever the
// program gave up. Sleeping, and not spinning, for a limit of CPU time may be in force.
void gate(unsigned number) {
    static struct { unsigned reached, open; } *gates;
    int errno_before = errno;
    const char *path = gates ? NULL : getenv("GUEST_GATES");
    if (path) {
        int file = open(path, O_RDWR | O_CLOEXEC);
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) gates = page;
        close(file);
    }
    if (gates) {
        struct timespec pause = {0, 200000};
        __atomic_store_n(&gates->reached, number, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&gates->open, __ATOMIC_SEQ_CST) < number) syscall(SYS_nanosleep, &pause, NULL);
    }
    errno = errno_before;
}

int started_again(void) {
    say("again: %ld faults", churn(300, 3000));
    return 7;
}
