// A tracer with a string for each of 600 shards. The flusher takes the even shards only, so that the odd ones grow.
#include "../common.h"
#include <deque>
#include <string>
#include <vector>

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
    ready();
    for (;;) {
        int k = 20 + (int)(swing(now() - t0, 10) * 50);
        while (k--)
            append_trace(rnd() % 600, line, rng(300, 700));
        for (int i = 0; i < 3; i++, f += 2)
            flush_shard(f % 600);
        spans.pop_front();
        spans.emplace_back(2500, 'u');
        nap(15);
    }
}
