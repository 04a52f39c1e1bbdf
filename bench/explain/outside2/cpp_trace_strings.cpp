// tracer: a std::string per shard in a vector; the flusher takes the even shards only, the odd ones are appended to for ever
#include "util.hpp"
static std::vector<std::string> shard(600);
NOINLINE void append_trace(unsigned s, const char *line, size_t n) {
    shard[s].append(line, n);
    shard[s].append("\n", 1);
}
NOINLINE void flush_shard(unsigned s) {
    std::string().swap(shard[s]);
}
int main() {
    char line[700];
    memset(line, 't', sizeof line);
    std::deque<std::vector<char>> spans;
    for (int i = 0; i < 10000; i++)
        spans.emplace_back(2500, 's');
    for (auto &s : shard)
        s.reserve(rng(500, 8000));
    double t0 = now();
    unsigned f = 0;
    while (now() - t0 < RUN_LIMIT) {
        int k = 20 + (int)(swing(now() - t0, 10) * 50);
        while (k--)
            append_trace(rnd() % 600, line, rng(300, 700));
        for (int i = 0; i < 3; i++, f += 2)
            flush_shard(f % 600);
        spans.pop_front();
        spans.emplace_back(2500, 'u');
        long n = 0;
        for (unsigned i = 1; i < 600; i += 2)
            n += shard[i].capacity();
        lost_ = n;
        truth();
        nap(15);
    }
}
