// matching engine: order book by price; cancelled orders stay in the id index (std::map), filled ones leave
#include "util.hpp"
struct Order {
    unsigned long id;
    std::string account;
    std::vector<int> fills;
};
class Book {
    std::map<unsigned long, Order> by_id;

  public:
    NOINLINE void index_order(unsigned long id) {
        Order o;
        o.id = id;
        o.account = std::string(60 + id % 100, 'A');
        o.fills.resize(40 + id % 60, 1);
        by_id.emplace(id, std::move(o));
    }
    NOINLINE void fill(unsigned long id) { by_id.erase(id); }
    size_t size() { return by_id.size(); }
};
NOINLINE std::vector<char> market_snapshot(unsigned n) {
    return std::vector<char>(6000 + n % 20000, 'p');
}
int main() {
    double t0 = now();
    Book b;
    unsigned long id = 0;
    std::deque<std::vector<char>> snaps;
    while (now() - t0 < RUN_LIMIT) {
        for (int k = 0; k < 14; k++) {
            b.index_order(++id);
            if (id > 6000 && (id - 6000) % 5 != 0)
                b.fill(id - 6000);
            if (k % 3 == 0) {
                snaps.push_back(market_snapshot(rnd()));
                if (snaps.size() > 1200)
                    snaps.pop_front();
            }
        }
        nap(12);
    }
    printf("%zu\n", b.size());
}
