// a thread per connection; each connection may make 36 requests per 3.5 s. fault: pace (the 37th sleeps in the request
// until the window is over, up to ~350 ms). Mended: it is refused at once.
#include "ox.h"
#include <chrono>
#include <thread>
struct Window {
    double from = 0;
    int used = 0;
};
static NOINL bool vetch_admit(Window &w) {
    double n = ex_now();
    if (n > w.from + 3.5) {
        w.from = n;
        w.used = 0;
    }
    if (++w.used <= 36)
        return true;
    if (!ex_is("pace"))
        return false;
    std::this_thread::sleep_for(std::chrono::microseconds((long)((w.from + 3.5 - n) * 1e6) + 50));
    ex_sink++;
    return true;
}
static void tendril(int fd) {
    ex_name("tendril");
    ex_nodelay(fd);
    Window w;
    exreq q;
    while (!ex_full(fd, &q, sizeof q, 0)) {
        if (vetch_admit(w))
            EX_BURN_US(O.work_us);
        if (ex_full(fd, &q, sizeof q, 1))
            break;
    }
    close(fd);
}
int main(int c, char **v) {
    ex_args(c, v, 21000, 90, 300, 8);
    int l = ex_listen(O.port);
    std::thread([] {
        ex_name("pod");
        for (;;)
            ex_sleep_ms(450);
    }).detach();
    ex_load("keep", 0, 0);
    for (;;)
        std::thread(tendril, accept(l, 0, 0)).detach();
}
