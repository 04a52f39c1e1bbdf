// Four workers, each with an epoll set of its own; the main thread gives them connections in turn. No locks. Every 50th
// request of a connection: --fault compute: computes 90 ms; --fault network: asks a slow peer, 160 ms; --fault fresh:
// faults in 140 MB of fresh memory and unmaps it. Healthy: does nothing more. Other variants run it beside processes
// that use every CPU, or under a CPU quota.
#include "../../common/service.h"
#include <string>
#include <sys/epoll.h>
#include <thread>

static const int WORKERS = 4;
static int epolls[WORKERS];

NOINLINE void resolve_graph(double us) {
    use_result(spin(us * rounds_per_us, 5));
}

NOINLINE int fetch_quote(int ms) {
    int result = ask_peer(ms);
    use_result(result);
    return result + 1;
}

NOINLINE void build_canvas(size_t size) {
    char *canvas = (char *)mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(canvas, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += 4096)
        canvas[i] = i;
    use_result(canvas[size / 2]);
    munmap(canvas, size);
}

NOINLINE void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    if (id % 50 != 17)
        return;
    if (is_variant("compute"))
        resolve_graph(90000);
    else if (is_variant("network"))
        fetch_quote(160);
    else if (is_variant("fresh"))
        build_canvas((size_t)140 << 20);
}

static void run_worker(int worker) {
    name_thread(("worker-" + std::to_string(worker)).c_str());
    epoll_event ready[16];
    for (;;) {
        int count = epoll_wait(epolls[worker], ready, 16, -1);
        for (int i = 0; i < count; i++) {
            request request;
            if (!read_request(ready[i].data.fd, &request)) {
                close(ready[i].data.fd);
                continue;
            }
            handle_request(request.id);
            send_answer(ready[i].data.fd, &request);
        }
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 120, 500, 8);
    int listener = listen_on(settings.port);
    if (is_variant("network"))
        start_peer("peer");
    for (int i = 0; i < WORKERS; i++) {
        epolls[i] = epoll_create1(EPOLL_CLOEXEC);
        std::thread(run_worker, i).detach();
    }
    start_load("keep", 0, 0);
    for (int i = 0;; i++) {
        epoll_event event;
        event.events = EPOLLIN;
        event.data.fd = accept_connection(listener);
        epoll_ctl(epolls[i % WORKERS], EPOLL_CTL_ADD, event.data.fd, &event);
    }
}
