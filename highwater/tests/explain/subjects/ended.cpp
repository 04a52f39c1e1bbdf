// Fills its memory in one way, and ends with a core. Once it says "ready" it waits for a line.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <pthread.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

struct Order {
    virtual ~Order() = default;
    virtual double total() const { return price; }
    double price = 1;
    char note[70] = "asap";
};

struct Session {
    Session *next;
    char *user;
    char state[100];
};

enum { ORDERS = 20000, SESSIONS = 20000, BLOCKS = 40000, THREADS = 40 };

Session *open_sessions[256];
static void *pieces[BLOCKS];

static void forget_orders() {
    for (int i = 0; i < ORDERS; i++) new Order;
}

static void keep_sessions() {
    for (int i = 0; i < SESSIONS; i++) {
        auto *session = static_cast<Session *>(calloc(1, sizeof(Session)));
        session->user = strdup("somebody@example.org");
        session->next = open_sessions[i % 256];
        open_sessions[i % 256] = session;
    }
}

static void leave_holes() {
    for (auto &piece : pieces) memset(piece = malloc(400), 1, 400);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 100) free(pieces[i]);
}

static void *deep(void *) {
    char stack[600000];
    memset(stack, 1, sizeof stack);
    pause();
    return stack + 5;
}

static void start_threads() {
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) pthread_create(&thread, nullptr, deep, nullptr);
    sleep(1);
}

// Lists of free blocks are no leak.
static void free_some() {
    void *some[500];
    for (auto &one : some) one = malloc(48);
    for (auto &one : some) free(one);
}

// What only a register or the stack holds.
static void hold_in_passing() {
    std::map<int, std::string> names;
    for (int i = 0; i < 20000; i++) names[i] = "a name that is longer than fits";
    puts("ready");
    fflush(stdout);
    getchar();
    abort();
}

int main(int, char **words) {
    rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &most);
    free_some();
    std::string shape = words[1];
    if (shape == "leak") forget_orders();
    if (shape == "cache") keep_sessions();
    if (shape == "holes") leave_holes();
    if (shape == "threads") start_threads();
    if (shape == "passing") hold_in_passing();
    puts("ready");
    fflush(stdout);
    getchar();
    abort();
}
