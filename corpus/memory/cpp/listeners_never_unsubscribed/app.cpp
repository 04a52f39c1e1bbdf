// An event bus. A view subscribes to two topics, and three views in four stay subscribed to one of them when they are
// closed. Built without debug information.
#include "../common.h"
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

class Bus {
    std::unordered_map<std::string, std::unordered_map<int, std::function<int(int)>>> subs;
    int next = 0;

  public:
    NOINLINE int subscribe(const std::string &t, std::function<int(int)> f) {
        subs[t].emplace(++next, std::move(f));
        return next;
    }
    NOINLINE void unsubscribe(const std::string &t, int id) { subs[t].erase(id); }
    int emit(const std::string &t, int lim) {
        int s = 0;
        for (auto &f : subs[t]) {
            s += f.second(lim);
            if (--lim <= 0)
                break;
        }
        return s;
    }
};
struct View {
    int a, b;
    std::vector<char> pixels;
};

NOINLINE std::function<int(int)> make_theme_listener(unsigned n) {
    std::vector<int> palette(200 + n % 300, n);
    return [palette](int i) { return palette[i % palette.size()]; };
}

NOINLINE std::unique_ptr<View> open_view(Bus &b, unsigned n) {
    auto v = std::make_unique<View>();
    v->pixels.resize(5000 + n % 15000, 1);
    v->a = b.subscribe("resize", [n](int i) { return (int)n + i; });
    v->b = b.subscribe("theme", make_theme_listener(n));
    return v;
}

NOINLINE void close_view(Bus &b, View &v, unsigned n) {
    b.unsubscribe("resize", v.a);
    if (n % 4 == 0)
        b.unsubscribe("theme", v.b);
}

int main() {
    Bus b;
    std::deque<std::unique_ptr<View>> open;
    unsigned n = 0;
    long s = 0;
    ready();
    for (;;) {
        for (int k = 0; k < 4; k++) {
            open.push_back(open_view(b, ++n));
            if (open.size() > 1500) {
                close_view(b, *open.front(), n);
                open.pop_front();
            }
        }
        s += b.emit("theme", 20);
        nap(12);
    }
}
