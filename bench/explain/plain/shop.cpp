// Leaks and collections in C++ as services have them. First argument: which; a second one: mended.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static bool mended;
static void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
static thread_local unsigned long seed = 362436069ul;
static unsigned pick() { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed >> 13; }

// Traffic: orders in a map, replaced at random; strings, vectors and streams beside them.
struct Order { std::string customer; std::vector<int> items; std::unique_ptr<std::string> note; };
static void serve(int n) {
    static thread_local std::map<unsigned, Order> orders;
    while (n--) {
        Order order;
        order.customer.assign(10 + pick() % 200, 'c');
        order.items.resize(pick() % 100);
        order.note = std::make_unique<std::string>(pick() % 300, 'n');
        orders[pick() % 3000] = std::move(order);
    }
}
static std::string format_line(int n) { std::ostringstream out; out << "line " << n << ' ' << std::string(100, 'x'); return out.str(); }

class Connection {
public:
    explicit Connection(int id) : id_(id), buffer_(2000, 'b') {}
    virtual ~Connection() = default;
    int id() const { return id_; }
private:
    int id_;
    std::string buffer_;
};

// connections: new without delete on the way of a refused one.
static int refused;
class Server {
public:
    [[gnu::noinline]] void handle(int n) { Connection *c = open_connection(n); if (n % 8 == 5 && !mended) { refused += c->id(); return; } delete c; }
private:
    [[gnu::noinline]] Connection *open_connection(int n) { return new Connection(n); }
};

// nodes: parent and child hold each other with shared_ptr.
struct Node { std::shared_ptr<Node> parent; std::vector<std::shared_ptr<Node>> children; std::string text = std::string(300, 't'); };
[[gnu::noinline]] void build_tree() { auto root = std::make_shared<Node>(); for (int i = 0; i < 3; i++) { auto child = std::make_shared<Node>(); if (!mended) child->parent = root; root->children.push_back(child); } }

// callbacks: a session keeps a function that keeps the session.
struct Session { std::function<void()> on_close; std::string data = std::string(1500, 'd'); };
[[gnu::noinline]] void start_session() { auto s = std::make_shared<Session>(); std::weak_ptr<Session> weak = s; if (mended) s->on_close = [weak] { weak.lock(); }; else s->on_close = [s] { s->data.clear(); }; }

// listeners: an emitter's list of listeners only grows.
struct Emitter { std::vector<std::function<void(const std::string &)>> listeners; [[gnu::noinline]] void subscribe(std::string topic) { listeners.push_back([topic](const std::string &) { (void)topic.size(); }); } };

// metrics: a map with ever new labels.
static std::unordered_map<std::string, std::vector<long>> metrics;
[[gnu::noinline]] void record_metric(int n) { metrics["requests{user=\"" + std::to_string(n) + "\",path=\"/api/v1/things\"}"].resize(40, n); }

// queue: one produces more than the other takes.
static std::deque<std::string> jobs; static std::mutex gate;
[[gnu::noinline]] void enqueue(int n) { std::lock_guard lock(gate); jobs.push_back(format_line(n) + std::string(400, 'j')); }
static void consume() { for (;;) { { std::lock_guard lock(gate); if (!jobs.empty()) jobs.pop_front(); } serve(10); pause_ms(12); } }

// parser: a throw passes by the delete.
[[gnu::noinline]] void parse_document(int n) {
    auto *scratch = new std::vector<char>(3000, 'p');
    if (n % 12 == 1) { if (mended) delete scratch; throw std::runtime_error("unexpected end"); }
    delete scratch;
}

// release: a unique_ptr is released and nobody takes it.
[[gnu::noinline]] void send_message(int n) { auto m = std::make_unique<std::array<char, 900>>(); m->fill(char(n)); char *raw = m.release()->data(); if (mended) delete reinterpret_cast<std::array<char, 900> *>(raw); }

// history: a list, the last 20,000.
static std::list<std::string> history;
[[gnu::noinline]] void remember(int n) { history.push_back(format_line(n)); if (history.size() > 20000) history.pop_front(); }

// array-delete: what new[] made goes without delete[] in one of the worker threads.
[[gnu::noinline]] void render_tile(int worker, int n) { auto *pixels = new unsigned char[4096]; std::memset(pixels, n, 4096); if (worker != 2 || mended || n % 4) delete[] pixels; }

template <class Work> static void loop(int every, int ms, Work work) { for (int n = 0;; n++) { try { work(n); } catch (const std::exception &) {} serve(10); if (n % every == 0) pause_ms(ms); } }

int main(int count, char **words) {
    const std::string which = count > 1 ? words[1] : "";
    mended = count > 2;
    Server server; Emitter emitter;
    if (which == "connections") loop(10, 5, [&](int n) { server.handle(n); });
    if (which == "nodes") loop(2, 20, [](int) { build_tree(); });
    if (which == "callbacks") loop(2, 20, [](int) { start_session(); });
    if (which == "listeners") loop(4, 5, [&](int n) { emitter.subscribe("topic " + std::to_string(n) + std::string(100, 'l')); });
    if (which == "metrics") loop(4, 5, [](int n) { record_metric(n); });
    if (which == "queue") { std::thread(consume).detach(); loop(4, 8, [](int n) { enqueue(n); }); }
    if (which == "parser") loop(10, 5, [](int n) { parse_document(n); });
    if (which == "release") loop(4, 10, [](int n) { send_message(n); });
    if (which == "history") loop(10, 4, [](int n) { remember(n); });
    if (which == "tiles") { for (int w = 0; w < 4; w++) std::thread([w] { loop(5, 10, [w](int n) { render_tile(w, n); }); }).detach(); pause_ms(1 << 30); }
}
