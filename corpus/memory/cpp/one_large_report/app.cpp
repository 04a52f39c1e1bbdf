// A service with one large report, 15 to 22 s after the start: 100 MB of rows in a map, all freed. Small records made
// at its end keep the top of the heap.
#include "../common.h"
#include <string>
#include <unordered_map>
#include <vector>

struct Row {
    std::string key;
    std::vector<double> cols;
};

NOINLINE void nightly_report(std::vector<std::string> &audit) {
    std::unordered_map<std::string, Row> rows;
    for (int i = 0; i < 90000; i++) {
        Row r;
        r.key = "row-" + std::to_string(i) + std::string(30, 'k');
        r.cols.assign(90 + rnd() % 60, 1.0);
        rows.emplace(r.key, std::move(r));
        if (i % 150 == 0) {
            nap(11);
            audit.push_back(std::string(60, 'a'));
        }
    }
    audit.push_back(std::string(400, 'z'));
}

int main() {
    double t0 = now();
    std::vector<std::string> cache(3000), audit;
    bool done = false;
    ready();
    for (;;) {
        for (int k = 0; k < 6; k++)
            cache[rnd() % 3000] = std::string(rng(500, 9000), 'c');
        if (!done && now() - t0 > 15) {
            nightly_report(audit);
            done = true;
        }
        nap(11);
    }
}
