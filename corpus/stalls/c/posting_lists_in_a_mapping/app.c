// A search service: eight threads accept from one socket, a request reads 700 pages of a mapped file of 96 MiB. --fault
// evict: every 2.5 s the mapping's pages are dropped, and requests take major faults. Healthy: they stay.
#include "../../common/service.h"

#define MAPPED ((size_t)96 << 20)
static int listener, postings_file;
static unsigned char *postings;

NOINLINE uint64_t scan_postings(uint64_t id) {
    uint64_t x = id * 2654435761u | 1, sum = 0;
    for (int i = 0; i < 700; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        sum += postings[x % (MAPPED / 4096) * 4096];
    }
    use_result(sum);
    return sum;
}

NOINLINE void forget_postings(void) {
    madvise(postings, MAPPED, MADV_DONTNEED);
    posix_fadvise(postings_file, 0, 0, POSIX_FADV_DONTNEED);
    use_result(1);
}

static void *accept_and_serve(void *unused) {
    name_thread("acceptor");
    for (;;) {
        int fd = accept_connection(listener);
        struct request request;
        if (read_request(fd, &request)) {
            burn_us(settings.work_us);
            scan_postings(request.id);
            send_answer(fd, &request);
        }
        close(fd);
    }
    return unused;
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 120, 200, 8);
    make_big_file("postings", MAPPED >> 20);
    postings_file = open_file("postings", O_RDONLY);
    postings = mmap(0, MAPPED, PROT_READ, MAP_SHARED, postings_file, 0);
    madvise(postings, MAPPED, MADV_RANDOM);
    for (size_t i = 0; i < MAPPED; i += 4096)
        use_result(postings[i]);
    listener = listen_on(settings.port);
    for (int i = 0; i < 8; i++)
        start_thread(accept_and_serve, 0);
    start_load("connect", 0, 0);
    for (;;) {
        sleep_ms(2500);
        if (is_variant("evict"))
            forget_postings();
    }
}
