// An event router with a list for each route in a map. Events are stored under the name that the client sent and
// taken under the name in lower case. Built without debug information.
#include "../common.h"
#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

struct Event {
    unsigned id;
    std::array<char, 700> payload;
};
using Queue = std::list<Event>;
static std::unordered_map<std::string, Queue> routes;

NOINLINE void enqueue_event(const std::string &route, unsigned id) {
    Queue &q = routes[route];
    q.emplace_back();
    q.back().id = id;
    q.back().payload.fill((char)id);
}

NOINLINE unsigned drain_route(std::string route, size_t keep) {
    std::transform(route.begin(), route.end(), route.begin(), ::tolower);
    Queue &q = routes[route];
    unsigned n = 0;
    while (q.size() > keep) {
        q.pop_front();
        n++;
    }
    return n;
}

int main() {
    double t0 = now();
    std::vector<std::string> names;
    for (int i = 0; i < 40; i++)
        names.push_back((i % 4 ? "eu-west/orders/" : "EU-West/orders/") + std::to_string(i));
    std::deque<std::vector<char>> pages;
    for (int i = 0; i < 8000; i++)
        pages.emplace_back(4000, 'p');
    unsigned id = 0, out = 0;
    ready();
    for (;;) {
        int k = 20 + (int)(swing(now() - t0, 12) * 40);
        while (k--) {
            unsigned r = rnd() % 40;
            enqueue_event(names[r], ++id);
        }
        for (auto &n : names)
            out += drain_route(n, 250);
        pages.pop_front();
        pages.emplace_back(4000, 'q');
        nap(20);
    }
}
