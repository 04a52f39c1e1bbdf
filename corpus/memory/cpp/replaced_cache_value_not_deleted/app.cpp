// A cache of the last used values. When a key is stored again, its old value is not deleted.
#include "../common.h"
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

struct Value {
    char *data;
    size_t n;
};
class Lru {
    std::list<unsigned> order;
    std::unordered_map<unsigned, std::pair<Value, std::list<unsigned>::iterator>> m;
    size_t cap = 3000;

  public:
    NOINLINE Value load_value(unsigned k) {
        Value v;
        v.n = 1500 + k % 6000;
        v.data = new char[v.n];
        memset(v.data, k, v.n);
        return v;
    }
    NOINLINE void put(unsigned k) {
        auto it = m.find(k);
        Value v = load_value(k);
        if (it != m.end()) {
            order.erase(it->second.second);
            order.push_front(k);
            it->second = {v, order.begin()};
            return;
        }
        order.push_front(k);
        m[k] = {v, order.begin()};
        if (m.size() > cap) {
            unsigned o = order.back();
            order.pop_back();
            delete[] m[o].first.data;
            m.erase(o);
        }
    }
};

int main() {
    Lru l;
    std::vector<std::string> tmp(300);
    ready();
    for (;;) {
        for (int k = 0; k < 6; k++) {
            l.put(rnd() % 5 == 0 ? rnd() % 900 : rnd() % 2000000);
            tmp[rnd() % 300] = std::string(rng(100, 4000), 'q');
        }
        nap(13);
    }
}
