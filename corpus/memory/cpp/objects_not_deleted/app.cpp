// A service that makes an object for some requests and does not give all of it back. The mode says how; expected.toml
// describes it. With a second argument the service is healthy (where expected.toml says so).
#include "../common.h"
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

static bool healthy;

// Deleted by way of a base that has no virtual destructor.
struct Message {
    int priority = 0;
};
struct TextMessage : Message {
    std::vector<char> text;
    explicit TextMessage(int n) : text(900 + n % 50, 't') {}
};

NOINLINE static Message *receive_message(int n) {
    return new TextMessage(n);
}

static void no_virtual_destructor(int n) {
    ::operator delete(receive_message(n));
}

// The constructor throws after it has allocated; its destructor does not run then.
struct Decoder {
    char *window;

    explicit Decoder(int n) : window(new char[1500]) {
        memset(window, n, 1500);
        if (n % 3 == 0)
            throw std::runtime_error("the header is not complete");
    }

    ~Decoder() { delete[] window; }
};

NOINLINE static void open_decoder(int n) {
    try {
        Decoder decoder(n);
        use(decoder.window);
    } catch (const std::exception &) {
    }
}

// An exception passes by the delete.
NOINLINE static void parse_document(int n) {
    auto *scratch = new std::vector<char>(3000, 'p');
    std::unique_ptr<std::vector<char>> owner(healthy ? scratch : nullptr);
    if (n % 12 == 1)
        throw std::runtime_error("unexpected end");
    if (!healthy)
        delete scratch;
}

static void exception_passes(int n) {
    for (int i = 0; i < 4; i++)
        try {
            parse_document(n * 4 + i);
        } catch (const std::exception &) {
        }
}

// unique_ptr::release(), and nothing takes the pointer.
NOINLINE static void send_packet(int n) {
    auto packet = std::make_unique<std::array<char, 900>>();
    packet->fill(char(n));
    use(packet.release());
}

struct alignas(64) Particle {
    float state[32];
};

NOINLINE static void start_particles(int n) {
    auto *particles = new Particle[6];
    particles[5].state[3] = n;
    use(particles);
}

// The class has an operator new of its own.
struct Job {
    char plan[700];
    static void *operator new(size_t n) { return std::malloc(n); }
    static void operator delete(void *p) { std::free(p); }
};

NOINLINE static void schedule_job(int n) {
    auto *job = new Job;
    memset(job->plan, n, sizeof job->plan);
    use(job);
    if (n % 5)
        delete job;
}

// A thread's own object stays when the thread ends.
static thread_local std::vector<std::string> *local_log;

NOINLINE static void open_local_log(int n) {
    local_log = new std::vector<std::string>(12, std::string(300, 'l'));
    (*local_log)[0][0] = char(n);
}

static void thread_local_object(int n) {
    std::thread([n] { open_local_log(n); }).join();
}

// A queue of variants, of which some are raw pointers.
NOINLINE static char *read_attachment(int n) {
    auto *attachment = new char[900];
    memset(attachment, n, 900);
    return attachment;
}

static void pointer_in_variant(int n) {
    static std::deque<std::variant<int, std::string, char *>> queue;
    if (n % 3 == 0)
        queue.emplace_back(read_attachment(n));
    else
        queue.emplace_back(std::string(100, 'q'));
    if (queue.size() > 500)
        queue.pop_front();
}

// Entries of a map of raw pointers are erased without their values.
NOINLINE static char *load_picture(int n) {
    auto *picture = new char[640];
    memset(picture, n, 640);
    return picture;
}

static void pointer_in_map(int n) {
    static std::map<int, char *> pictures;
    pictures[n] = load_picture(n);
    if (pictures.size() > 300) {
        if (healthy)
            delete[] pictures.begin()->second;
        pictures.erase(pictures.begin());
    }
}

// Every fourth map is lost as a whole.
NOINLINE static void build_index(int n) {
    auto *index = new std::map<int, std::string>;
    for (int i = 0; i < 12; i++)
        (*index)[n + i] = "an entry of the index that is longer than short " + std::to_string(i);
    use(index);
    if (n % 4)
        delete index;
}

// The names are long, and what is lost is in a vector of a member of a template.
namespace storage::internal::v2 {
template <class Key, class Value, template <class...> class Holder> struct Cabinet {
    struct Drawer {
        Key key;
        Value value;
        Holder<Value> rest;
    };

    Drawer *open_drawer(Key key, Value value) { return new Drawer{key, value, Holder<Value>(12, value)}; }
};

template <class T> using Row = std::vector<T>;
} // namespace storage::internal::v2

template <class Cabinet> NOINLINE static void read_drawer(Cabinet &cabinet, int n) {
    auto *drawer = cabinet.open_drawer(n, std::string(60, 'v'));
    use(drawer);
    if (healthy)
        delete drawer;
}

static void long_names(int n) {
    static storage::internal::v2::Cabinet<long, std::string, storage::internal::v2::Row> cabinet;
    read_drawer(cabinet, n);
}

// Two objects hold each other.
struct Peer {
    std::shared_ptr<Peer> strong;
    std::weak_ptr<Peer> weak;
    std::string name = std::string(400, 'p');
};

NOINLINE static void connect_peers(int) {
    auto one = std::make_shared<Peer>(), other = std::make_shared<Peer>();
    (healthy ? one->weak : other->weak) = other;
    if (!healthy) {
        one->strong = other;
        other->strong = one;
    }
}

// One of four threads does not give its buffer back.
NOINLINE static void render_tile(int worker, int n) {
    auto *pixels = new unsigned char[4096];
    memset(pixels, n, 4096);
    use(pixels);
    if (worker != 2 || n % 4)
        delete[] pixels;
}

static void one_of_four_threads(int n) {
    static std::vector<std::thread> workers;
    for (int w = 0; w < 4 && n == 0; w++)
        workers.emplace_back([w] {
            for (int k = 0;; k++) {
                render_tile(w, k);
                serve_requests(20);
                if (k % 5 == 0)
                    nap(10);
            }
        });
}

int main(int argc, char **argv) {
    const std::map<std::string, void (*)(int)> modes = {{"no_virtual_destructor", no_virtual_destructor},
                                                        {"constructor_throws", open_decoder},
                                                        {"exception_passes", exception_passes},
                                                        {"released_pointer", send_packet},
                                                        {"aligned_array", start_particles},
                                                        {"own_operator_new", schedule_job},
                                                        {"thread_local_object", thread_local_object},
                                                        {"pointer_in_variant", pointer_in_variant},
                                                        {"pointer_in_map", pointer_in_map},
                                                        {"whole_map", build_index},
                                                        {"long_names", long_names},
                                                        {"cycle", connect_peers},
                                                        {"one_of_four_threads", one_of_four_threads}};
    healthy = argc > 2;
    auto mode = modes.find(argc > 1 ? argv[1] : "");
    if (mode == modes.end())
        return 2;
    ready();
    for (int n = 0;; n++) {
        mode->second(n);
        serve_requests(10);
        if (n % 8 == 0)
            nap(20);
    }
}
