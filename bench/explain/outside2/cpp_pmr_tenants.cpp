// search tenants: each tenant's documents live in a monotonic_buffer_resource that outlives them: erased entries give nothing back
#include "util.hpp"
#include <memory_resource>
struct Tenant {
    std::pmr::monotonic_buffer_resource mem{128 * 1024};
    std::pmr::unordered_map<unsigned, std::pmr::vector<char>> docs{&mem};
    std::deque<unsigned> order;
};
NOINLINE void index_document(Tenant &t, unsigned id, size_t n) {
    t.docs[id].resize(n, (char)id);
    t.order.push_back(id);
    lost_ += n + 64;
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
    double t0 = now();
    std::vector<std::unique_ptr<Tenant>> tenants;
    for (int i = 0; i < 14; i++)
        tenants.push_back(std::make_unique<Tenant>());
    std::deque<std::vector<char>> results;
    unsigned id = 0;
    size_t sum = 0;
    while (now() - t0 < RUN_LIMIT) {
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
        truth();
        nap(20);
    }
    printf("%zu\n", sum);
}
