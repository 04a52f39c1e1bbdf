// A store under one pthread mutex, a thread for each connection. Every 2.4 s a thread of the lowest priority (nice 19)
// compacts it: 5 ms of CPU. --fault inversion: with the mutex; beside processes that use every CPU it gets to run
// rarely, and all requests wait for it. Healthy: it computes first and takes the mutex for a moment.
#include "../../common/service.h"
#include <sys/resource.h>
#include <sys/syscall.h>

enum { ITEMS = 1024 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t items[ITEMS];

NOINLINE void compact_items(double us) {
    burn_us(us);
    use_result(1);
}

NOINLINE void maintain_store(void) {
    bool locked = is_variant("inversion");
    if (!locked)
        compact_items(5000);
    pthread_mutex_lock(&mutex);
    if (locked)
        compact_items(5000);
    items[3]++;
    pthread_mutex_unlock(&mutex);
    use_result(1);
}

static void *run_maintenance(void *unused) {
    name_thread("compactor");
    setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19);
    for (;;) {
        sleep_ms(2400);
        maintain_store();
    }
    return unused;
}

NOINLINE void update_item(uint64_t id) {
    pthread_mutex_lock(&mutex);
    items[id % ITEMS] += id;
    pthread_mutex_unlock(&mutex);
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    update_item(id);
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 150, 120, 10);
    int listener = listen_on(settings.port);
    start_thread(run_maintenance, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
