// A daemon of several processes, of which another one than expected loses blocks. Modes: grandchild (a child of a child
// whose parent has left), late_child (forked after 15 s, beside 90 MB that stay), through_a_shell (the program starts
// itself again by system()), fork_server (it only forks and waits), parent (which serves by short-lived children).
#include "../common.h"
#include <sys/wait.h>

NOINLINE static void book_request(size_t n) {
    use(memset(malloc(n), 1, n));
}

static void run_child(pid_t daemon, size_t n, int rest_ms) { // ends when the first process is gone
    while (kill(daemon, 0) == 0) {
        book_request(n);
        serve_requests(30);
        nap(rest_ms);
    }
    _exit(0);
}

static void serve_in_a_child(void) {
    pid_t child = fork();
    if (child == 0) {
        serve_requests(100);
        _exit(0);
    }
    waitpid(child, 0, 0);
    book_request(3000);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    static char *kept[3000];
    pid_t daemon = argc > 2 ? atoi(argv[2]) : getpid();
    if (!strcmp(mode, "again"))
        run_child(daemon, 1700, 17);
    if (!strcmp(mode, "late_child"))
        for (int i = 0; i < 3000; i++)
            kept[i] = memset(malloc(30000), i, 30000);
    use(kept);
    if (!strcmp(mode, "grandchild")) {
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0)
                run_child(daemon, 1300, 10);
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    ready();
    if (!strcmp(mode, "through_a_shell")) {
        char line[4200], self[4096];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n < 0 ? 0 : n] = 0;
        snprintf(line, sizeof line, "'%s' again %d & wait", self, daemon);
        return system(line);
    }
    if (!strcmp(mode, "fork_server")) {
        if (fork() == 0)
            run_child(daemon, 700, 3);
        wait(NULL);
    }
    double start = now();
    for (int forked = 0;;) {
        if (!strcmp(mode, "late_child") && !forked && now() - start > 15) {
            forked = 1;
            if (fork() == 0)
                run_child(daemon, 900, 10);
        }
        if (!strcmp(mode, "parent"))
            serve_in_a_child();
        serve_requests(20);
        nap(40);
    }
}
