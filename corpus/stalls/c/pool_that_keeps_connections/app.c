// Six threads of a pool keep each connection until its client closes it, and poll it every 10 ms for the next request.
// --fault kept: every 2.4 s six boards ask once each, and keep their connections open for 450 ms; what else comes lies
// unread. Healthy: the pool has twenty-four threads.
#include "../../common/service.h"
#include <poll.h>
#include <sys/wait.h>

enum { WORKERS = 6, BOARDS = 6, WAITING_MAX = 1024, POLL_MS = 10 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int waiting[WAITING_MAX];
static unsigned first_waiting, last_waiting;

static void hand_over(int fd) {
    pthread_mutex_lock(&mutex);
    waiting[last_waiting++ % WAITING_MAX] = fd;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&mutex);
}

static int next_connection(void) {
    pthread_mutex_lock(&mutex);
    while (first_waiting == last_waiting)
        pthread_cond_wait(&came, &mutex);
    int fd = waiting[first_waiting++ % WAITING_MAX];
    pthread_mutex_unlock(&mutex);
    return fd;
}

// Until there is something to read, or the client is gone.
NOINLINE int await_next_request(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    int found = 0;
    while (found == 0)
        found = poll(&one, 1, POLL_MS);
    return found + 1;
}

NOINLINE void price_basket(uint64_t id) {
    burn_us(settings.work_us);
    use_result(id);
}

static void *keep_connections(void *unused) {
    name_thread("http-worker");
    for (;;) {
        int fd = next_connection();
        struct request request;
        while (await_next_request(fd) > 0 && read_request(fd, &request)) {
            price_basket(request.id);
            if (!send_answer(fd, &request))
                break;
        }
        close(fd);
    }
    return unused;
}

// Other clients: a process of its own.
static void run_boards(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(settings.seconds);
    for (;;) {
        sleep_ms(2400);
        int boards[BOARDS];
        struct request request = {7, 0};
        for (int i = 0; i < BOARDS; i++) {
            boards[i] = connect_to(settings.port);
            if (boards[i] >= 0 && send_answer(boards[i], &request))
                read_request(boards[i], &request);
        }
        sleep_ms(450);
        for (int i = 0; i < BOARDS; i++)
            close(boards[i]);
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 120, 300, 12);
    int listener = listen_on(settings.port);
    if (fork() == 0) {
        close(listener);
        run_boards();
    }
    int workers = is_variant("kept") ? WORKERS : 4 * WORKERS;
    for (int i = 0; i < workers; i++)
        start_thread(keep_connections, 0);
    start_load("connect", 0, 0);
    for (;;)
        hand_over(accept_connection(listener));
}
