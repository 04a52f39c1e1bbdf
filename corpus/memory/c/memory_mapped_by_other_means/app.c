// A recorder that gets its memory past malloc, by the means that the mode names, and keeps it.
#include "../common.h"
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

static void rest(int turns) {
    while (turns--) {
        serve_requests(40);
        nap(50);
    }
}

static char *map_memory(size_t size, int flags, int fd, size_t offset) {
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (p == MAP_FAILED)
        exit(1);
    return p;
}

static int open_file(char *path, size_t size) { // its name is gone when it is open
    int fd = mkstemp(path);
    if (fd < 0 || unlink(path) || posix_fallocate(fd, 0, size))
        exit(1);
    return fd;
}

static void write_on(char *p, size_t size) {
    for (size_t at = 0; at < size; at += MIB / 4, rest(3))
        memset(p + at, 1, MIB / 4);
    pause();
}

static void raw_system_call(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    for (;; rest(3))
        memset((char *)syscall(SYS_mmap, NULL, 200000, PROT_READ | PROT_WRITE, flags, -1, 0), 1, 200000);
}

static void shared_anonymous(void) {
    for (;; rest(3))
        memset(map_memory(300000, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 300000);
}

static void system_v(void) {
    for (;; rest(6)) {
        int id = shmget(IPC_PRIVATE, MIB / 2, IPC_CREAT | 0600);
        char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
        if (p == (char *)-1)
            exit(1);
        shmctl(id, IPC_RMID, NULL);
        memset(p, 1, MIB / 2);
    }
}

static void posix_shared_memory(void) {
    for (int i = 0;; i++, rest(14)) {
        char name[64];
        snprintf(name, sizeof name, "/recorder-%d-%d", getpid(), i);
        int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
        shm_unlink(name);
        if (fd < 0 || ftruncate(fd, MIB))
            exit(1);
        memset(map_memory(MIB, MAP_SHARED, fd, 0), 1, MIB);
        close(fd);
    }
}

static void file_in_memory(void) {
    char path[] = "/dev/shm/recorder-XXXXXX";
    write_on(map_memory(200 * MIB, MAP_SHARED, open_file(path, 200 * MIB), 0), 200 * MIB);
}

static void private_file(void) {
    char path[] = "/var/tmp/recorder-XXXXXX";
    write_on(map_memory(200 * MIB, MAP_PRIVATE, open_file(path, 200 * MIB), 0), 200 * MIB);
}

static void shared_file_made_longer(void) {
    char path[] = "/var/tmp/recorder-XXXXXX";
    size_t room = MIB, used = 0;
    int fd = open_file(path, room);
    char *all = map_memory(room, MAP_SHARED, fd, 0);
    for (;; used += 16384, nap(20)) {
        if (used + 16384 > room) {
            if (ftruncate(fd, room * 2) || (all = mremap(all, room, room * 2, MREMAP_MAYMOVE)) == MAP_FAILED)
                exit(1);
            room *= 2;
        }
        memset(all + used, 3, 16384);
        serve_requests(40);
    }
}

static void moved_break(void) {
    for (;; rest(2)) {
        char *p = sbrk(131072);
        if (p == (char *)-1)
            exit(1);
        memset(p, 1, 131072);
    }
}

static void reservation_opened(void) {
    char *p = mmap(NULL, 4096 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t at = 0;; at += 65536, rest(1)) {
        if (mprotect(p + at, 65536, PROT_READ | PROT_WRITE))
            exit(1);
        memset(p + at, 1, 65536);
        if (at % 131072 == 0)
            mprotect(p + at, 65536, PROT_READ);
    }
}

NOINLINE static void map_window(void) {
    char *p = map_memory(131072, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 131072);
    munmap(p, 65536);
}

static void half_unmapped(void) {
    for (;; nap(80)) {
        serve_requests(160);
        map_window();
    }
}

static char *pool_chunk;
static size_t pool_used = MIB;

NOINLINE static void add_pool_chunk(void) {
    pool_chunk = map_memory(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool_used = 0;
}

static void own_pool(void) {
    for (;; nap(20)) {
        for (int i = 0; i < 40; i++, pool_used += 1000) {
            if (pool_used + 1000 > MIB)
                add_pool_chunk();
            memset(pool_chunk + pool_used, 3, 1000);
        }
        serve_requests(50);
    }
}

static void ring_of_mappings(void) {
    static char *ring[200];
    for (int n = 0;; n++) {
        char **at = &ring[n % 200];
        if (*at)
            munmap(*at, 300000);
        *at = memset(map_memory(300000, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), n, 300000);
        serve_requests(40);
        if (n == 200)
            ready();
        nap(40);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"raw_system_call", raw_system_call}, {"shared_anonymous", shared_anonymous},
                 {"system_v", system_v}, {"posix_shared_memory", posix_shared_memory},
                 {"file_in_memory", file_in_memory}, {"private_file", private_file},
                 {"shared_file_made_longer", shared_file_made_longer}, {"moved_break", moved_break},
                 {"reservation_opened", reservation_opened}, {"half_unmapped", half_unmapped},
                 {"own_pool", own_pool}, {"ring_of_mappings", ring_of_mappings}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            if (modes[i].run != ring_of_mappings)
                ready();
            modes[i].run();
        }
    return 2;
}
