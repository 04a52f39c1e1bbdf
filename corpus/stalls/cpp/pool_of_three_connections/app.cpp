// A thread for each client; a request calls the backend on one of three pooled connections. In 40 ms of every 2.8 s the
// backend takes 180 ms for a call. --fault slow: requests make these calls, and the others wait for a connection.
// Healthy: a refresher makes the slow calls on a connection of its own; requests answer from what they know meanwhile.
#include "../../common/service.h"
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

class ConnectionPool {
    std::mutex mutex;
    std::condition_variable returned;
    std::vector<int> idle;

  public:
    NOINLINE int borrow_connection() {
        std::unique_lock<std::mutex> guard(mutex);
        returned.wait(guard, [&] { return !idle.empty(); });
        int fd = idle.back();
        idle.pop_back();
        return fd;
    }

    void give_back(int fd) {
        std::lock_guard<std::mutex> guard(mutex);
        idle.push_back(fd);
        returned.notify_one();
    }
};
static ConnectionPool pool;

static bool backend_is_slow() {
    return (long)(now_s() * 1e3) % 2800 < 40;
}

NOINLINE void call_backend(int fd, uint64_t id, uint64_t ms) {
    request request = {id, ms};
    if (!send_answer(fd, &request) || !read_request(fd, &request))
        exit(9);
    use_result(request.id);
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    if (backend_is_slow() && !is_variant("slow"))
        return;
    int fd = pool.borrow_connection();
    call_backend(fd, id, backend_is_slow() ? 180 : 0);
    pool.give_back(fd);
}

static void refresh() {
    name_thread("refresher");
    int fd = connect_to(settings.port + 1);
    for (;;) {
        sleep_until_multiple(2800, 1);
        call_backend(fd, 1, is_variant("slow") ? 1 : 180);
    }
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 160, 300, 12);
    int listener = listen_on(settings.port);
    start_peer("peer");
    for (int i = 0; i < 3; i++)
        pool.give_back(connect_to(settings.port + 1));
    std::thread(refresh).detach();
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
