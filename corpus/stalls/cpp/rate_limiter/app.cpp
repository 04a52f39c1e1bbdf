// A thread for each connection, which may make 36 requests in 3.5 s. --fault sleep: a request over the limit sleeps in
// its thread until the window ends (up to ~350 ms). Healthy: it is refused at once.
#include "../../common/service.h"
#include <chrono>
#include <thread>

static const double WINDOW_S = 3.5;
static const int LIMIT = 36;
struct Window {
    double start_s = 0;
    int used = 0;
};

static NOINLINE bool admit_request(Window &window) {
    double now = now_s();
    if (now > window.start_s + WINDOW_S) {
        window.start_s = now;
        window.used = 0;
    }
    if (++window.used <= LIMIT)
        return true;
    if (!is_variant("sleep"))
        return false;
    std::this_thread::sleep_for(std::chrono::microseconds((long)((window.start_s + WINDOW_S - now) * 1e6) + 50));
    use_result(1);
    return true;
}

static void serve_client(int fd) {
    name_thread("connection");
    Window window;
    request request;
    while (read_request(fd, &request)) {
        if (admit_request(window))
            burn_us(settings.work_us);
        if (!send_answer(fd, &request))
            break;
    }
    close(fd);
}

static void tick() {
    name_thread("ticker");
    for (;;)
        sleep_ms(450);
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 90, 300, 8);
    int listener = listen_on(settings.port);
    std::thread(tick).detach();
    start_load("keep", 0, 0);
    for (;;)
        std::thread(serve_client, accept_connection(listener)).detach();
}
