// market data: Channel<Tick>, Channel<Quote>, Channel<Trade> on a thread each; crossed quotes are unlinked without delete
#include "util.hpp"
#include <thread>
struct Tick {
    char data[180];
    bool crossed() const { return false; }
};
struct Quote {
    char data[520];
    bool crossed() const { return data[0] % 4 == 0; }
};
struct Trade {
    char data[360];
    bool crossed() const { return false; }
};
template <class T> struct Channel {
    struct Node {
        Node *next;
        unsigned seq;
        T msg;
    };
    Node *first = nullptr, *last = nullptr;
    size_t n = 0;
    NOINLINE Node *publish(unsigned seq) {
        Node *x = new Node;
        x->next = nullptr;
        x->seq = seq;
        memset(x->msg.data, (int)(rnd() & 127), sizeof x->msg.data);
        (last ? last->next : first) = x;
        last = x;
        n++;
        return x;
    }
    NOINLINE void expire(size_t keep) {
        while (n > keep) {
            Node *x = first;
            first = x->next;
            n--;
            if (x->msg.crossed())
                __sync_fetch_and_add(&lost_, sizeof *x); // "the surveillance job deletes it"
            else
                delete x;
        }
    }
    void run(double until, double period) {
        unsigned seq = 0;
        while (now() < until) {
            int k = 20 + (int)(swing(now(), period) * 40);
            while (k--)
                publish(++seq);
            expire(9000);
            nap(20);
        }
    }
};
static Channel<Tick> ticks;
static Channel<Quote> quotes;
static Channel<Trade> trades;
int main() {
    double end = now() + RUN_LIMIT;
    std::thread a([=] { ticks.run(end, 9); }), b([=] { quotes.run(end, 13); }), c([=] { trades.run(end, 7); });
    while (now() < end) {
        truth();
        nap(200);
    }
    a.join(), b.join(), c.join();
}
