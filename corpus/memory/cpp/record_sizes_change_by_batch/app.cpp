// Telemetry: every 4 s a batch of records of another size. 1 of 8 stays in a window of a fixed number of bytes, the
// others are freed. The pages of a size class stay pinned, and other sizes cannot use them.
#include "../common.h"
#include <deque>
#include <vector>

struct Rec {
    char *p;
    size_t n;
};
static std::deque<Rec> window;
static size_t bytes;

NOINLINE char *decode_record(size_t n) {
    char *p = (char *)::operator new(n);
    memset(p, 1, n);
    return p;
}

static void keep_record(Rec r) {
    window.push_back(r);
    bytes += r.n;
    while (bytes > 30u << 20) {
        Rec o = window.front();
        window.pop_front();
        bytes -= o.n;
        ::operator delete(o.p);
    }
}

int main() {
    static const size_t size[] = {448, 112, 768, 192, 1280, 320, 96, 896, 256, 1792, 640, 160, 384, 128, 224};
    for (int i = 0; i < 60000; i++)
        keep_record({decode_record(512), 512});
    ready();
    for (unsigned batches = 0;; batches++) {
        size_t n = size[batches % 15], k = 8000000 / n;
        std::vector<Rec> batch;
        batch.reserve(k);
        for (size_t i = 0; i < k; i++) {
            batch.push_back({decode_record(n), n});
            if (i % (k / 100) == 0)
                nap(25);
        }
        for (size_t i = 0; i < k; i++)
            if (i % 8 == 3)
                keep_record(batch[i]);
            else
                ::operator delete(batch[i].p);
        nap(1300);
    }
}
