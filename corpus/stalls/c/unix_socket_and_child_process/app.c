// A service on a Unix socket: six threads accept, a connection for each request, counters under a pthread mutex. Every
// 2.15 s a thread runs a child process of 180 ms and waits for it. --fault child: with the mutex. Healthy: before it.
#include "../../common/service.h"
#include <spawn.h>
#include <sys/wait.h>

enum { COUNTERS = 512 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t counters[COUNTERS];
static int listener;

NOINLINE int refresh_rules(void) {
    char *arguments[] = {"sleep", "0.18", 0};
    pid_t child;
    int status = 1;
    if (posix_spawn(&child, "/bin/sleep", 0, 0, arguments, environ))
        return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status + 1;
}

NOINLINE void count_request(uint64_t id) {
    pthread_mutex_lock(&mutex);
    counters[id % COUNTERS]++;
    burn_us(settings.work_us / 4);
    pthread_mutex_unlock(&mutex);
}

static void *keep_rules_fresh(void *unused) {
    name_thread("rule-refresh");
    bool locked = is_variant("child");
    for (;;) {
        sleep_ms(2150);
        int result = locked ? 0 : refresh_rules();
        pthread_mutex_lock(&mutex);
        if (locked)
            result = refresh_rules();
        counters[9] += result;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *accept_and_serve(void *unused) {
    name_thread("acceptor");
    for (;;) {
        int fd = accept_connection(listener);
        struct request request;
        if (read_request(fd, &request)) {
            burn_us(settings.work_us);
            count_request(request.id);
            send_answer(fd, &request);
        }
        close(fd);
    }
    return unused;
}

int main(int argc, char **argv) {
    static char path[100];
    read_settings(argc, argv, 170, 300, 12);
    snprintf(path, sizeof path, "%s/socket", settings.dir);
    unlink(path);
    settings.socket_path = path;
    struct sockaddr_un address = unix_address(path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 256)) {
        perror(path);
        return 4;
    }
    for (int i = 0; i < 6; i++)
        start_thread(accept_and_serve, 0);
    start_thread(keep_rules_fresh, 0);
    start_load("connect", 0, 0);
    for (;;)
        pause();
}
