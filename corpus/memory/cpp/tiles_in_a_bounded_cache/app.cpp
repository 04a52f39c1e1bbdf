// A map server: a cache of the last used tiles with a bound of 90 MB, reached after some 35 s.
#include "../common.h"
#include <list>
#include <string>
#include <unordered_map>

static std::list<std::pair<unsigned, std::string>> order;
static std::unordered_map<unsigned, decltype(order)::iterator> where;
static size_t bytes;

NOINLINE void load_tile(unsigned id) {
    order.emplace_front(id, std::string(rng(4000, 20000), 't'));
    where[id] = order.begin();
    bytes += order.front().second.size();
}

int main() {
    ready();
    for (;;) {
        for (int i = 0; i < 2 + (int)(rnd() % 2); i++) {
            unsigned id = rnd() % 40000;
            auto it = where.find(id);
            if (it != where.end())
                order.splice(order.begin(), order, it->second);
            else
                load_tile(id);
        }
        while (bytes > 90u << 20) {
            bytes -= order.back().second.size();
            where.erase(order.back().first);
            order.pop_back();
        }
        serve_requests(30);
        nap(10);
    }
}
