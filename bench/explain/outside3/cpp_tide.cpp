// order matching: the book of open orders swells and shrinks by 50 MB every 13 s
#include "work.h"
#include <map>
#include <vector>
struct Order {
    double price;
    std::vector<char> memo;
};
static std::map<uint64_t, Order> book;
NOINLINE void place_order(uint64_t id) {
    Order &o = book[id];
    o.price = rng(1, 1000);
    o.memo.assign(rng(500, 3500), 'o');
    live_ += o.memo.size();
}
int main() {
    double t0 = now();
    uint64_t id = 0;
    while (now() - t0 < RUN_LIMIT) {
        size_t goal = 5000 + (size_t)(25000 * swing(now() - t0 + 4, 13));
        for (int k = 0; k < 40; k++)
            place_order(++id);
        for (int k = 0; k < 140 && book.size() > goal; k++) {
            live_ -= book.begin()->second.memo.size();
            book.erase(book.begin());
        }
        for (int k = 0; k < 60 && book.size() < goal; k++)
            place_order(++id);
        bystanders(20);
        truth();
        nap(10);
    }
}
