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
// A rush in the first 400 turns; then all of it goes but one in 40.
__attribute__((noinline)) static void rush(long turn) {
    if (turn < 400) for (int i = 0; i < 250; i++) { pins.push_back(new char[400]); memset(pins.back(), 1, 400); }
    if (turn == 400) for (size_t i = 0; i < pins.size(); i++) if (i % 40) delete[] pins[i];
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
        if (wrong == "retention") rush(turn);
        usleep(20000);
    }
}
