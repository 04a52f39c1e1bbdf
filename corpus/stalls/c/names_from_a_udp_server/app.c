// Addresses come from a name server by UDP and are kept in a table under a pthread mutex. --fault expired: one name is
// good for 2.2 s; the request that finds it expired asks, 220 ms, with the mutex. --fault refresh: every ~2.8 s a
// resolver thread asks 45 times 5 ms with the mutex. Healthy: the resolver asks for both without the mutex.
#include "../../common/service.h"

enum { NAMES = 8 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t address;
    double valid_until_s;
} table[NAMES];

NOINLINE uint64_t ask_name_server(uint64_t name, uint64_t ms) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in server = local_address(settings.port + 1);
    struct timeval limit = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct request request = {name, ms};
    if (connect(fd, (struct sockaddr *)&server, sizeof server) || send(fd, &request, sizeof request, 0) < 0 ||
        recv(fd, &request, sizeof request, 0) < 0)
        request.id = 0;
    close(fd);
    return request.id + 1;
}

NOINLINE uint64_t gather_addresses(int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += ask_name_server(i, 5);
    return sum;
}

NOINLINE uint64_t find_address(uint64_t id) {
    unsigned name = id % NAMES;
    pthread_mutex_lock(&mutex);
    if (is_variant("expired") && table[name].valid_until_s < now_s()) {
        table[name].address = ask_name_server(id, name ? 1 : 220);
        table[name].valid_until_s = now_s() + (name ? 1e6 : 2.2);
    }
    uint64_t address = table[name].address;
    pthread_mutex_unlock(&mutex);
    return address;
}

static void *resolve_names(void *unused) {
    name_thread("resolver");
    for (;;) {
        sleep_ms(2570);
        if (is_variant("expired"))
            continue;
        bool locked = is_variant("refresh");
        uint64_t first = locked ? 0 : gather_addresses(45), second = locked ? 0 : ask_name_server(0, 220);
        pthread_mutex_lock(&mutex);
        table[1].address = locked ? gather_addresses(45) : first;
        table[0].address = second;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    use_result(find_address(id));
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 160, 300, 10);
    int listener = listen_on(settings.port);
    start_peer("udp-peer");
    start_thread(resolve_names, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
