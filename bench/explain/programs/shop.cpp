// C++: containers, smart pointers, exceptions, pools; the first argument says which.
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define FAR __attribute__((noinline))
static void rest_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
static std::mt19937 random_bits(5);

// Traffic: small documents that are built, read and thrown away.
static size_t traffic(int count) {
    size_t letters = 0;
    while (count--) {
        std::map<std::string, std::vector<std::string>> document;
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 4; k++) document["a key that is long enough " + std::to_string(i)].push_back(std::string(random_bits() % 200, 'x'));
        for (auto &[key, values] : document) letters += key.size() + values.size();
    }
    return letters;
}

namespace shop {
struct Session { std::string user, cart; int visits = 0; };
struct SessionTable {
    std::unordered_map<std::string, Session> sessions;
    FAR void touch(const std::string &id) { auto &session = sessions[id]; session.user = std::string(180, 'u'); session.visits++; }
};
struct Node { std::shared_ptr<Node> peer; char body[600]; };
FAR void make_pair() { auto a = std::make_shared<Node>(), b = std::make_shared<Node>(); a->peer = b; b->peer = a; std::memset(a->body, 1, 600); std::memset(b->body, 1, 600); }
struct Loader { std::vector<char> data; explicit Loader(size_t size) : data(size, 'd') {} };
FAR void read_block() { auto *loader = new Loader(1200); asm volatile("" ::"r"(loader) : "memory"); }
FAR void decode(int number) {
    auto *header = new char[700];
    std::memset(header, 1, 700);
    if (number % 2) throw std::runtime_error("bad frame");
    delete[] header;
}
FAR void hand_over() { auto owned = std::make_unique<std::array<char, 900>>(); owned->fill(1); auto *raw = owned.release(); asm volatile("" ::"r"(raw) : "memory"); }
struct alignas(64) Particle { float state[32]; };
FAR void spawn() { auto *particles = new Particle[6]; particles[5].state[3] = 1; asm volatile("" ::"r"(particles) : "memory"); }
struct Interner {
    std::pmr::monotonic_buffer_resource ground;
    std::pmr::vector<std::pmr::string> names{&ground};
    FAR void intern(int number) { names.emplace_back(std::to_string(number) + std::string(150, 'n')); }
};
struct Handler { std::string name; virtual ~Handler() = default; virtual void run() {} };
struct Base { char tag[16]; };  // no virtual destructor: deleting through it forgets the list's nodes
struct Batch : Base { std::list<std::string> rows; };
FAR Base *open_batch() { auto *batch = new Batch; for (int i = 0; i < 6; i++) batch->rows.push_back(std::string(150, 'r')); return batch; }
std::vector<std::function<void()>> listeners;
FAR void subscribe(int number) { std::string context(300, 'c'); listeners.push_back([context, number] { (void)context.size(); (void)number; }); }
}

static void sessions() { shop::SessionTable table; for (int i = 0;; i++) { table.touch("session-" + std::to_string(i)); if (i % 20 == 0) { traffic(1); rest_ms(20); } } }
static void cycle() { for (;;) { for (int i = 0; i < 6; i++) shop::make_pair(); traffic(2); rest_ms(20); } }
static void loader() { for (;;) { for (int i = 0; i < 8; i++) shop::read_block(); traffic(2); rest_ms(20); } }
static void thrown() { for (int i = 0;; i++) { for (int k = 0; k < 10; k++) try { shop::decode(k); } catch (const std::exception &) {} traffic(2); rest_ms(20); } }
static void released() { for (;;) { for (int i = 0; i < 9; i++) shop::hand_over(); traffic(2); rest_ms(20); } }
static void aligned() { for (;;) { for (int i = 0; i < 9; i++) shop::spawn(); traffic(2); rest_ms(20); } }
static void interned() { shop::Interner interner; for (int i = 0;; i++) { interner.intern(i); if (i % 50 == 0) { traffic(1); rest_ms(20); } } }
static void listened() { for (int i = 0;; i++) { shop::subscribe(i); if (i % 20 == 0) { traffic(1); rest_ms(20); } } }
static void sliced() { for (;;) { for (int i = 0; i < 8; i++) { auto *batch = shop::open_batch(); operator delete(batch); } traffic(2); rest_ms(20); } }
static void window() { std::deque<std::string> recent; for (;;) { for (int i = 0; i < 40; i++) { recent.push_back(std::string(random_bits() % 3000, 'w')); if (recent.size() > 4000) recent.pop_front(); } traffic(2); rest_ms(20); } }
// The table is emptied every nine seconds.
static void emptied() { for (;;) { shop::SessionTable table; for (int i = 0; i < 9000; i++) { table.touch("session-" + std::to_string(i)); if (i % 20 == 0) { traffic(1); rest_ms(20); } } } }

int main(int count, char **words) {
    const std::map<std::string, void (*)()> all = {
        {"sessions", sessions}, {"cycle", cycle}, {"loader", loader}, {"thrown", thrown}, {"released", released}, {"aligned", aligned},
        {"interned", interned}, {"listened", listened}, {"sliced", sliced}, {"window", window}, {"emptied", emptied},
    };
    auto found = all.find(count > 1 ? words[1] : "");
    if (found == all.end()) return 2;
    found->second();
}
