// A crew that works on orders, in C++ over a linked-in allocator. The first word: what is wrong.
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>
struct Order { long id; std::string note; std::vector<int> parts; };
static std::map<long, std::unique_ptr<Order>> book;
static std::deque<std::unique_ptr<Order>> recent;
static std::vector<char *> pins;
static Order *volatile sink;
__attribute__((noinline)) static std::unique_ptr<Order> take_order(long id) {
    auto order = std::make_unique<Order>();
    order->id = id;
    order->note = "to be delivered before the evening " + std::to_string(id);
    for (int i = 0; i < 40; i++) order->parts.push_back(i);
    return order;
}
__attribute__((noinline)) static void lose_order(long id) { sink = take_order(id).release(); sink = nullptr; }
__attribute__((noinline)) static void enter_order(long id) { book[id] = take_order(id); }
__attribute__((noinline)) static void keep_recent(long id) {
    recent.push_back(take_order(id));
    if (recent.size() > 2000) recent.pop_front();
}
// Blocks of a size that comes once; one in 40 stays until the next round.
__attribute__((noinline)) static void new_size(long round) {
    size_t n = 64 + 32 * (round % 30);
    std::vector<char *> all;
    for (int i = 0; i < 16000; i++) { all.push_back(new char[n]); memset(all.back(), 1, n); }
    for (char *pin : pins) delete[] pin;
    pins.clear();
    for (size_t i = 0; i < all.size(); i++) { if (i % 40 == 0) pins.push_back(all[i]); else delete[] all[i]; }
}
int main(int count, char **words) {
    std::string wrong = count > 1 ? words[1] : "flat";
    int traffic = count > 2 ? atoi(words[2]) : 10;
    long id = 0;
    for (long turn = 0;; turn++) {
        for (int i = 0; i < traffic; i++) sink = take_order(id++).get();
        for (int i = 0; i < 4; i++) {
            if (wrong == "leak") lose_order(id++);
            if (wrong == "filling") enter_order(id++);
            if (wrong == "last") keep_recent(id++);
        }
        if (wrong == "retention" && turn % 100 == 99) new_size(turn / 100);
        usleep(20000);
    }
}
