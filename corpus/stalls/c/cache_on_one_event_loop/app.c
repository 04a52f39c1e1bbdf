// A cache of 2 GB on one event loop. --fault fork: every 2.8 s the loop forks for a snapshot, which copies its page
// tables; copy-on-write faults follow. --fault connect: every 2.7 s a request's handler connects to a neighbour whose
// listen queue is full, and blocks 250 ms until its send timeout (the cache has 64 MB then). Healthy: a helper process,
// forked while the cache was small, makes the snapshot; the connect does not block, and the loop gives up on it.
#include "../../common/service.h"
#include <sys/epoll.h>

static size_t size = (size_t)2 << 30;
static uint64_t *entries;
static int helper, pending = -1;
static double next_call, give_up_at;

NOINLINE void save_snapshot(void) {
    pid_t child = fork();
    if (child == 0) {
        sleep_ms(120);
        _exit(0);
    }
    use_result(child);
}

NOINLINE void call_neighbour(bool blocking) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0);
    struct timeval limit = {0, 250000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    struct sockaddr_in address = local_address(settings.port + 1);
    use_result(connect(fd, (struct sockaddr *)&address, sizeof address) + 2);
    if (blocking) {
        close(fd);
        return;
    }
    pending = fd;
    give_up_at = now_s() + 0.25;
}

NOINLINE void update_entries(uint64_t id) {
    for (int i = 0; i < 4; i++)
        entries[(id * 2654435761u + i * 40503u) % (size / 8)] += id;
}

NOINLINE void serve_client(int fd) {
    struct request request;
    if (!read_request(fd, &request)) {
        close(fd);
        return;
    }
    burn_us(settings.work_us);
    update_entries(request.id);
    if (now_s() > next_call) {
        next_call = now_s() + 2.7;
        if (is_variant("connect"))
            call_neighbour(true);
        if (is_variant("none")) {
            call_neighbour(false);
            if (write(helper, "s", 1) != 1)
                exit(9);
        }
    }
    send_answer(fd, &request);
}

static void *fill_half(void *argument) {
    uint64_t *half = argument;
    for (size_t i = 0; i < size / 16; i += 512)
        half[i] = i + 1;
    return 0;
}

static void fill_cache(void) {
    if (is_variant("connect"))
        size = (size_t)64 << 20;
    entries = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(entries, size, MADV_NOHUGEPAGE);
    pthread_t second = start_thread(fill_half, entries + size / 16);
    fill_half(entries);
    pthread_join(second, 0);
}

static void start_snapshot_helper(void) {
    int ends[2];
    char byte;
    if (pipe(ends))
        exit(9);
    if (fork() == 0) {
        close(ends[1]);
        name_thread("snapshot-helper");
        while (read(ends[0], &byte, 1) == 1)
            sleep_ms(120);
        _exit(0);
    }
    close(ends[0]);
    helper = ends[1];
    fcntl(helper, F_SETFD, FD_CLOEXEC);
}

static void make_full_neighbour(void) {
    struct sockaddr_in address = local_address(settings.port + 1);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 0))
        exit(8);
    for (int i = 0; i < 3; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        use_result(connect(fd, (struct sockaddr *)&address, sizeof address));
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 180, 250, 10);
    name_thread("cache-loop");
    signal(SIGCHLD, SIG_IGN);
    int listener = listen_on(settings.port), epoll = epoll_create1(EPOLL_CLOEXEC);
    start_snapshot_helper();
    make_full_neighbour();
    fill_cache();
    start_load("keep", 0, 0);
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, ready[32];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    double next_snapshot = now_s() + 2.8;
    next_call = now_s() + 2;
    for (;;) {
        int count = epoll_wait(epoll, ready, 32, 50);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.fd == listener) {
                event.data.fd = accept_connection(listener);
                epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else {
                serve_client(ready[i].data.fd);
            }
        }
        if (pending >= 0 && now_s() > give_up_at) {
            close(pending);
            pending = -1;
        }
        if (is_variant("fork") && now_s() > next_snapshot) {
            next_snapshot += 2.8;
            save_snapshot();
        }
    }
}
