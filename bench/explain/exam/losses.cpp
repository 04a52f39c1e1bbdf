// Losses in C++, each with its mended twin ("ok"); names say nothing of what is done. First argument: which.
#include <chrono>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static bool ok = false;
static void nap(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Background: strings and vectors that come and go.
static void drizzle(int n) {
    static std::vector<std::string> puddles(3000);
    static unsigned at = 1;
    while (n--) { at = at * 1664525u + 1013904223u; puddles[(at >> 8) % 3000].assign(10 + (at >> 12) % 700, 'd'); puddles[(at >> 8) % 3000].shrink_to_fit(); }
}

// lacquer: templates with long names; a raw pointer in a variant of a node.
namespace atelier::internal::v2 {
template <class Key, class Value, template <class...> class Holder> struct Cabinet {
    struct Drawer { Key key; Value value; Holder<Value> rest; };
    Drawer *pull(Key key, Value value) { return new Drawer{key, value, Holder<Value>(12, value)}; }
};
template <class T> using Row = std::vector<T>;
}
static void *volatile bench;
template <class C> __attribute__((noinline)) void varnish(C &cabinet, int n) {
    auto *drawer = cabinet.pull(n, std::string(60, 'v'));
    bench = drawer;
    if (ok) delete drawer;
}
static void lacquer() {
    atelier::internal::v2::Cabinet<long, std::string, atelier::internal::v2::Row> cabinet;
    for (int n = 0;; n++) { varnish(cabinet, n); if (n % 3 == 0) { drizzle(50); nap(20); } }
}

// gavotte: two that hold each other.
struct Dancer { std::shared_ptr<Dancer> partner; std::string step = std::string(400, 'g'); };
struct Shy { std::weak_ptr<Shy> partner; std::string step = std::string(400, 'g'); };
template <class D> __attribute__((noinline)) void minuet() {
    auto a = std::make_shared<D>(), b = std::make_shared<D>();
    a->partner = b;
    b->partner = a;
}
static void gavotte() { for (;;) { ok ? minuet<Shy>() : minuet<Dancer>(); drizzle(60); nap(12); } }

// echo: a callback that holds itself.
struct Valley { std::function<void()> call; std::vector<char> rocks = std::vector<char>(900); };
__attribute__((noinline)) void shout() {
    auto valley = std::make_shared<Valley>();
    std::weak_ptr<Valley> weak = valley;
    if (ok) valley->call = [weak] { if (auto v = weak.lock()) v->rocks[0] = 1; };
    else valley->call = [valley] { valley->rocks[0] = 1; };
    valley->call();
}
static void echo() { for (;;) { shout(); drizzle(60); nap(15); } }

// parcel: a map of raw pointers whose entries are erased without their values.
struct Crate { char straw[640]; };
static std::map<int, Crate *> depot;
__attribute__((noinline)) Crate *nail(int n) { auto *crate = new Crate; std::memset(crate->straw, n, sizeof crate->straw); return crate; }
static void parcel() {
    for (int n = 0;; n++) {
        depot[n] = nail(n);
        if (depot.size() > 300) { if (ok) delete depot.begin()->second; depot.erase(depot.begin()); }
        if (n % 4 == 0) { drizzle(40); nap(20); }
    }
}

// thimble: thrown past.
struct Needle { double eye[60] = {}; };
__attribute__((noinline)) int hem(int n) {
    auto *needle = new Needle;
    std::unique_ptr<Needle> own(ok ? needle : nullptr);
    bench = needle;
    if (n % 2) throw std::runtime_error("the thread broke");
    if (!ok) delete needle;
    return n;
}
static void thimble() { for (int n = 0;; n++) { try { hem(n); } catch (const std::exception &) {} drizzle(20); nap(8); } }

// ledger: an index that is never emptied (kept: no leak that anybody could prove).
static std::unordered_map<std::string, std::string> folios;
__attribute__((noinline)) void inscribe(int n) { folios["folio " + std::to_string(n)] = std::string(300, 'f'); }
static void ledger() { for (int n = 0;; n++) { inscribe(n); if (n % 5 == 0) { drizzle(40); nap(25); } } }

// almanac: a least-recently-used list, full from the third second on.
static std::list<std::pair<int, std::string>> days;
static std::unordered_map<int, decltype(days)::iterator> when;
__attribute__((noinline)) void tear(int n) {
    days.emplace_front(n, std::string(500 + n % 900, 'a'));
    when[n] = days.begin();
    if (days.size() > 20000) { when.erase(days.back().first); days.pop_back(); }
}
static void almanac() { for (int n = 0;; n++) { tear(n); if (n % 300 == 0) { drizzle(40); nap(30); } } }

int main(int count, char **words) {
    std::map<std::string, void (*)()> all = {{"lacquer", lacquer}, {"gavotte", gavotte}, {"echo", echo}, {"parcel", parcel},
        {"thimble", thimble}, {"ledger", ledger}, {"almanac", almanac}};
    ok = count > 2;
    auto run = count > 1 ? all.find(words[1]) : all.end();
    if (run != all.end()) run->second();
    return 2;
}
