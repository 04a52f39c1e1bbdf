// Losses and caches in C++; names say nothing of what is done. First argument: which; a second one: the mended twin.
#include <any>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

static bool ok;
static void nap(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
static unsigned long dice_state = 88172645463325252ul;
static unsigned dice() { dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17; return dice_state >> 11; }
static std::string *water[2000];
static void splash(int n) { while (n--) { auto &at = water[dice() % 2000]; delete at; at = new std::string(dice() % 500, 'w'); } }

namespace yard {

// barge: a type that wants 64 bytes of alignment.
struct alignas(64) Barge { char hold[448]; };
Barge *volatile moored;
[[gnu::noinline]] void barge(int n) { auto *b = new Barge; std::memset(b->hold, n, sizeof b->hold); moored = b; if (ok) delete b; }

// clipper: deleted by way of a base that has no virtual destructor.
struct Hull { int draught = 0; };
struct Clipper : Hull { std::vector<char> cargo; explicit Clipper(int n) : cargo(900 + n % 50, 'c') {} ~Clipper() {} };
[[gnu::noinline]] Hull *launch(int n) { return new Clipper(n); }
[[gnu::noinline]] void clipper(int n) { Hull *h = launch(n); if (ok) delete static_cast<Clipper *>(h); else ::operator delete(static_cast<Clipper *>(h)); }

// dhow: a constructor throws after it has taken something.
struct Dhow { char *sail; std::unique_ptr<char[]> own; explicit Dhow(int n) : sail(nullptr) {
    if (ok) { own.reset(new char[1500]); sail = own.get(); } else sail = new char[1500];
    std::memset(sail, n, 1500); if (n % 3 == 0) throw std::runtime_error("becalmed"); if (!ok) { delete[] sail; } } };
[[gnu::noinline]] void dhow(int n) { try { Dhow d(n); } catch (const std::exception &) {} }

// ferry: its own operator new, by which every one of the class goes; one in five is forgotten.
struct Ferry { char deck[700]; static void *operator new(size_t n) { return std::malloc(n); } static void operator delete(void *p) { std::free(p); } };
Ferry *volatile landing;
[[gnu::noinline]] void board(int n) { auto *f = new Ferry; std::memset(f->deck, n, 700); landing = f; if (n % 5 || ok) delete f; }

// galley: a lambda keeps what keeps the lambda.
struct Galley { std::function<void()> row; std::vector<int> oars; };
[[gnu::noinline]] void galley(int n) { auto g = std::make_shared<Galley>(); g->oars.assign(200, n); std::weak_ptr<Galley> w = g; if (ok) g->row = [w] { (void)w.lock(); }; else g->row = [g] { g->oars.clear(); }; }

// ketch: a thread's own heap object, taken by the thread and never given back.
thread_local std::vector<std::string> *locker;
[[gnu::noinline]] void stow(int n) { locker = new std::vector<std::string>(12, std::string(300, 'k')); (*locker)[0][0] = char(n); }
[[gnu::noinline]] void ketch(int n) { std::thread([n] { stow(n); if (ok) delete locker; }).join(); }

// lugger: a queue of variants; the raw pointers in some of them are dropped with it.
using Item = std::variant<int, std::string, char *>;
[[gnu::noinline]] char *tackle(int n) { char *p = new char[900]; std::memset(p, n, 900); return p; }
std::deque<Item> hold;
[[gnu::noinline]] void lugger(int n) {
    if (n % 3 == 0) hold.emplace_back(tackle(n)); else hold.emplace_back(std::string(100, 'l'));
    if (hold.size() > 500) { if (ok && std::holds_alternative<char *>(hold.front())) delete[] std::get<char *>(hold.front()); hold.pop_front(); }
}

// packet, quarter, raft: caches of 4,000 that are full after ten seconds, or (mended) of 400,000.
struct Entry { std::string body; std::list<std::string>::iterator at; };
std::list<std::string> order; std::unordered_map<std::string, Entry> byname;
[[gnu::noinline]] void packet(int n) {
    std::string name = "packet-of-many-letters-" + std::to_string(n);
    order.push_front(name); byname.emplace(name, Entry{std::string(100 + dice() % 1500, 'p'), order.begin()});
    if (byname.size() > (ok ? 400000u : 4000u)) { byname.erase(order.back()); order.pop_back(); }
}
std::map<long, std::shared_ptr<std::vector<long>>> bykey;
[[gnu::noinline]] void quarter(int n) { bykey[n] = std::make_shared<std::vector<long>>(20 + dice() % 150, n); if (bykey.size() > (ok ? 400000u : 4000u)) bykey.erase(bykey.begin()); }
std::vector<std::any> slots;
[[gnu::noinline]] void raft(int n) {
    const size_t many = ok ? 400000 : 4000; if (slots.empty()) slots.resize(many);
    if (n % 2) slots[n % many] = std::vector<char>(200 + dice() % 1000, 'r'); else slots[n % many] = std::string(200 + dice() % 1000, 'r');
}

}  // namespace yard

int main(int count, char **words) {
    using namespace yard;
    const std::map<std::string, void (*)(int)> all = {{"barge", barge}, {"clipper", clipper}, {"dhow", dhow}, {"ferry", board}, {"galley", galley}, {"ketch", ketch},
        {"lugger", lugger}, {"packet", packet}, {"quarter", quarter}, {"raft", raft}};
    ok = count > 2;
    auto one = all.find(count > 1 ? words[1] : "");
    if (one == all.end()) return 2;
    for (int n = 0;; n++) { one->second(n); if (n % 20 == 0) { splash(40); nap(50); } }
}
