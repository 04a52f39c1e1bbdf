// A search service with tenants. Each tenant's documents live in a monotonic_buffer_resource that outlives them, so
// that erased entries give nothing back.
#include "../common.h"
#include <deque>
#include <memory>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <vector>

struct Tenant {
    std::pmr::monotonic_buffer_resource mem{128 * 1024};
    std::pmr::unordered_map<unsigned, std::pmr::vector<char>> docs{&mem};
    std::deque<unsigned> order;
};

NOINLINE void index_document(Tenant &t, unsigned id, size_t n) {
    t.docs[id].resize(n, (char)id);
    t.order.push_back(id);
}

NOINLINE void drop_oldest(Tenant &t) {
    t.docs.erase(t.order.front());
    t.order.pop_front();
}

NOINLINE size_t run_query(size_t n) {
    std::pmr::monotonic_buffer_resource scratch(16 * 1024);
    std::pmr::vector<std::pmr::string> hits(&scratch);
    for (size_t i = 0; i < n; i++)
        hits.emplace_back(300, 'h');
    return hits.size();
}

int main() {
    std::vector<std::unique_ptr<Tenant>> tenants;
    for (int i = 0; i < 14; i++)
        tenants.push_back(std::make_unique<Tenant>());
    std::deque<std::vector<char>> results;
    unsigned id = 0;
    size_t sum = 0;
    ready();
    for (;;) {
        for (int k = 0; k < 8; k++) {
            Tenant &t = *tenants[rnd() % 14];
            index_document(t, ++id, rng(500, 3500));
            if (t.order.size() > 60)
                drop_oldest(t);
        }
        sum += run_query(rng(10, 100));
        results.emplace_back(rng(1000, 9000), 'r');
        if (results.size() > 400)
            results.pop_front();
        nap(20);
    }
}
