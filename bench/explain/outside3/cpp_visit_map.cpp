// visitors by id: an entry is made at the first sight, its page text replaced at each further one; those who sign out (one of three) are
// erased, the others stay for ever
#include "work.h"
#include <deque>
#include <unordered_map>
struct Visit {
    char *page = nullptr;
    size_t n = 0;
};
static std::unordered_map<uint64_t, Visit> visits;
NOINLINE void show_page(uint64_t id) {
    Visit &v = visits[id];
    delete[] v.page;
    v.n = rng(300, 2500);
    v.page = new char[v.n];
    memset(v.page, (int)id, v.n);
}
NOINLINE void sign_out(uint64_t id) {
    auto it = visits.find(id);
    delete[] it->second.page;
    visits.erase(it);
}
int main() {
    std::deque<uint64_t> recent;
    double t0 = now();
    uint64_t id = 1;
    while (now() - t0 < RUN_LIMIT) {
        for (int i = 0; i < 13; i++) {
            recent.push_back(++id * 2654435761u);
            show_page(recent.back());
        }
        for (int i = 0; i < 20; i++)
            show_page(recent[rnd() % recent.size()]);
        while (recent.size() > 2500) {
            uint64_t old = recent.front();
            recent.pop_front();
            if (rnd() % 3 == 0)
                sign_out(old);
            else
                lost_ += visits[old].n;
        }
        bystanders(25);
        truth();
        nap(10);
    }
    return 0;
}
