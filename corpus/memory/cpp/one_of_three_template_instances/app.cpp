// Market data: Channel<Tick>, Channel<Quote> and Channel<Trade>, each on a thread of its own. Crossed quotes are
// taken out of the list without delete.
#include "../common.h"
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
    NOINLINE Node *publish_message(unsigned seq) {
        Node *x = new Node;
        x->next = nullptr;
        x->seq = seq;
        memset(x->msg.data, (int)(rnd() & 127), sizeof x->msg.data);
        (last ? last->next : first) = x;
        last = x;
        n++;
        return x;
    }
    NOINLINE void expire_messages(size_t keep) {
        while (n > keep) {
            Node *x = first;
            first = x->next;
            n--;
            if (!x->msg.crossed())
                delete x;
        }
    }
    void run(double period) {
        unsigned seq = 0;
        for (;;) {
            int k = 20 + (int)(swing(now(), period) * 40);
            while (k--)
                publish_message(++seq);
            expire_messages(9000);
            nap(20);
        }
    }
};
static Channel<Tick> ticks;
static Channel<Quote> quotes;
static Channel<Trade> trades;

int main() {
    std::thread a([] { ticks.run(9); }), b([] { quotes.run(13); }), c([] { trades.run(7); });
    ready();
    a.join();
}
