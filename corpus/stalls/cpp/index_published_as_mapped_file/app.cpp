// Requests walk 700 pages of an index in a mapped file; every 2.5 s a publisher maps another file and publishes it by
// an atomic pointer. --fault cold: the new file's pages are not in memory, and each is a major fault. Healthy: the
// publisher reads it in beforehand (MADV_POPULATE_READ).
#include "../../common/service.h"
#include <atomic>
#include <poll.h>

static const size_t SIZE = 96 << 20, PAGES = SIZE / 4096, STEP = 1 << 20;
static std::atomic<unsigned char *> published;

static unsigned char *map_edition(int edition, bool warm) {
    static char block[STEP];
    int fd = open_file(edition ? "edition.1" : "edition.0", O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    auto *pages = (unsigned char *)mmap(0, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    madvise(pages, SIZE, MADV_RANDOM);
    for (size_t i = 0; warm && i < SIZE; i += STEP)
        if (pread(fd, block, STEP, i) < 0)
            exit(6);
    for (size_t i = 0; warm && i < SIZE; i += STEP)
        madvise(pages + i, STEP, 22 /* MADV_POPULATE_READ */);
    close(fd);
    return pages;
}

static void *publish_editions(void *unused) {
    name_thread("publisher");
    for (int edition = 1;; edition ^= 1) {
        sleep_ms(1500);
        unsigned char *old = published.exchange(map_edition(edition, !is_variant("cold")));
        sleep_ms(1000);
        for (size_t i = 0; i < SIZE; i += STEP) {
            munmap(old + i, STEP);
            poll(0, 0, 1);
        }
    }
    return unused;
}

NOINLINE uint64_t seek_entries(uint64_t id) {
    unsigned char *pages = published.load();
    uint64_t sum = 0, page = id * 2654435761u % PAGES;
    for (int i = 0; i < 700; i++) {
        sum += pages[page * 4096];
        page = (page * 5 + 1031 + sum % 2) % PAGES;
    }
    return sum;
}

static void handle_request(uint64_t id) {
    burn_us(settings.work_us);
    use_result(seek_entries(id));
}

int main(int argc, char **argv) {
    read_settings(argc, argv, 150, 250, 10);
    make_big_file("edition.0", SIZE >> 20);
    make_big_file("edition.1", SIZE >> 20);
    published = map_edition(0, true);
    int listener = listen_on(settings.port);
    start_thread(publish_editions, 0);
    start_load("keep", 0, 0);
    serve_connections(listener, "connection", handle_request);
}
