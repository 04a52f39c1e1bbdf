// A chat gateway. A session owns its timer, and the function of the timer of a sticky client owns the session. 13,000
// sessions are open from the start.
#include "../common.h"
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct Timer {
    std::function<int()> cb;
    char pad[200]{};
};
struct Session : std::enable_shared_from_this<Session> {
    std::string user;
    std::vector<char> inbox;
    std::shared_ptr<Timer> timer;
    void arm_timer(bool sticky);
    int tick() { return (int)inbox.size(); }
};

NOINLINE void Session::arm_timer(bool sticky) {
    timer = std::make_shared<Timer>();
    if (sticky) {
        auto self = shared_from_this();
        timer->cb = [self] { return self->tick(); };
    } else {
        std::weak_ptr<Session> w = weak_from_this();
        timer->cb = [w] {
            auto s = w.lock();
            return s ? s->tick() : 0;
        };
    }
}

NOINLINE std::shared_ptr<Session> open_session(unsigned id) {
    auto s = std::make_shared<Session>();
    s->user = "user-" + std::to_string(id) + std::string(40, 'u');
    s->inbox.resize(rng(1500, 7000), 'm');
    s->arm_timer(id % 9 == 0);
    return s;
}

int main() {
    std::deque<std::shared_ptr<Session>> live;
    unsigned id = 0;
    long sum = 0;
    for (;;) {
        int m = id < 13000 ? 13000 : 8;
        for (int k = 0; k < m; k++) {
            live.push_back(open_session(++id));
            sum += live.front()->timer->cb();
            if (live.size() > 13000)
                live.pop_front();
        }
        if (m == 13000)
            ready();
        nap(12);
    }
}
