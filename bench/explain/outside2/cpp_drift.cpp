// telemetry: each 4 s a batch of records of another size (other tenant); 1 of 8 stays in a window of a fixed number of bytes, the
// rest is freed. Live is flat; the pages of a size class stay pinned by its survivors and other sizes cannot use them
#include "util.hpp"
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
static void keep(Rec r) {
    window.push_back(r);
    bytes += r.n;
    while (bytes > 30u << 20) {
        Rec o = window.front();
        window.pop_front();
        bytes -= o.n;
        ::operator delete(o.p);
    }
    live_ = bytes;
}
int main() {
    static const size_t size[] = {448, 112, 768, 192, 1280, 320, 96, 896, 256, 1792, 640, 160, 384, 128, 224};
    double t0 = now();
    for (int i = 0; i < 60000; i++)
        keep({decode_record(512), 512});
    for (unsigned ph = 0; now() - t0 < RUN_LIMIT; ph++) {
        size_t n = size[ph % 15], k = 8000000 / n;
        std::vector<Rec> batch;
        batch.reserve(k);
        for (size_t i = 0; i < k; i++) {
            batch.push_back({decode_record(n), n});
            if (i % (k / 100) == 0)
                nap(25);
        }
        for (size_t i = 0; i < k; i++)
            if (i % 8 == 3)
                keep(batch[i]);
            else
                ::operator delete(batch[i].p);
        truth();
        nap(1300);
    }
}
