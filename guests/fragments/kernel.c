// System calls by number, and memory of every kind that the kernel has.
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// All six arguments, the result and errno must come through a layer over syscall().
// step by_number(bytes: 4096 4096..300000)
void by_number(long bytes) {
    errno = 77;
    char *room = (char *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (room == MAP_FAILED) {
        say("by_number: errno %d", errno);
        return;
    }
    room[bytes - 1] = 5;
    long moved = syscall(SYS_mremap, room, bytes, bytes * 3, MREMAP_MAYMOVE, NULL);
    int held = ((char *)moved)[bytes - 1] == 5, errno_held = errno;
    char from[100] = "written", to[100] = "";
    struct iovec here = {to, 100}, there = {from, 100};
    long copied = syscall(SYS_process_vm_readv, getpid(), &here, 1UL, &there, 1UL, 0UL);
    long code = syscall(SYS_munmap, moved, bytes * 3);
    long none = syscall(SYS_close, -1);
    int errno_after = errno;
    long unknown = syscall(9999);
    say("by_number: held %d, errno %d, copied %ld, code %ld, %ld %d, %ld %d", held, errno_held, copied, code, none,
        errno_after, unknown, errno);
}

static int has_io_uring(unsigned entries) {
    struct io_uring_params parameters = {0};
    int ring = syscall(SYS_io_uring_setup, entries, &parameters);
    if (ring < 0) return -errno;
    size_t queue_bytes = parameters.sq_off.array + parameters.sq_entries * 4, entry_bytes = parameters.sq_entries * sizeof(struct io_uring_sqe);
    char *queue = mmap(NULL, queue_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    int done = -1;
    if (queue != MAP_FAILED && entry != MAP_FAILED) {
        entry->opcode = IORING_OP_NOP;
        ((unsigned *)(queue + parameters.sq_off.array))[0] = 0;
        __atomic_store_n((unsigned *)(queue + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
        done = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        munmap(queue, queue_bytes);
        munmap(entry, entry_bytes);
    }
    close(ring);
    return done;
}

// step ring(entries: 1 8 64, bytes: 100 1..100000)
void ring(long entries, long bytes) {
    int done = has_io_uring((unsigned)entries);
    say("ring: %d, %ld faults", done, churn(50, bytes));
}

// step advised(advice: 0 1 2 3 4 8 9 10 11 12 13 14 15 16 17 18 19 20 21 99, bytes: 200000 100000..3000000)
void advised(long advice, long bytes) {
    // Whole pages inside a block of the allocator's.
    char *block = malloc(bytes);
    if (!block) return;
    memset(block, 3, bytes);
    char *page = (char *)(((uintptr_t)block + 4095) & ~4095UL);
    errno = 77;
    int code = madvise(page, (bytes - 8192) & ~4095L, (int)advice), errno_after = errno;
    // Free memory may go at any time; that of a child and of huge pages stays.
    int held = advice == 8 || advice == 9 || block[bytes / 2] == 3 || block[bytes / 2] == 0;
    memset(block, 4, bytes);
    // The pages go back to the allocator: a child needs them, with what is in them.
    madvise(page, (bytes - 8192) & ~4095L, MADV_DOFORK);
    madvise(page, (bytes - 8192) & ~4095L, MADV_KEEPONFORK);
    say("advised %ld: %d, errno %d, %d, %ld faults", advice, code, errno_after, held, churn(20, bytes / 8));
    free(block);
}

// step remapped(kind: 0 1 2 3 4, pages: 1..60)
void remapped(long kind, long pages) {
    long bytes = pages * 4096, faults = 0;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | (kind == 3 ? MAP_NORESERVE : 0), -1, 0);
    char *other = mmap(NULL, bytes, PROT_NONE, flags, -1, 0), *moved = MAP_FAILED;
    if (room == MAP_FAILED || other == MAP_FAILED) {
        say("remapped: refused");
        return;
    }
    memset(room, 6, bytes);
    switch (kind) {
    case 0: moved = mremap(room, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, other); break;
    case 1: moved = mremap(room, bytes, bytes, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, NULL); break;
    case 2: moved = mremap(room, bytes, 4096, 0); break;
    case 3: moved = mmap(other, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0); break;
    case 4: moved = mremap(room, bytes, bytes * 2, 0); break;
    }
    if (moved != MAP_FAILED && kind < 3) faults += moved[0] != 6;
    // What is not there may be unmapped as well; in halves.
    faults += munmap(room, bytes) != 0;
    faults += pages > 1 && munmap(other + bytes / 2 / 4096 * 4096, bytes - bytes / 2 / 4096 * 4096) != 0;
    faults += munmap(other, bytes) != 0;
    if (kind == 1 && moved != MAP_FAILED) munmap(moved, bytes);
    say("remapped %ld: %ld faults", kind, faults);
}

// step shared(kind: 0 1 2, bytes: 4096 4096..1000000)
void shared(long kind, long bytes) {
    int file = -1;
    char *room = MAP_FAILED;
    if (kind == 0) {
        file = syscall(SYS_memfd_create, "guest", 1U);
        if (file >= 0 && ftruncate(file, bytes) == 0) room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    } else if (kind == 1) {
        room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    } else {
        int segment = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
        if (segment >= 0) {
            room = shmat(segment, NULL, 0);
            shmctl(segment, IPC_RMID, NULL);
        }
    }
    if (room == MAP_FAILED) {
        say("shared: none, errno %d", errno);
        if (file >= 0) close(file);
        return;
    }
    room[bytes - 1] = 1;
    int child = fork();
    if (child == 0) {
        room[bytes - 1] += 1 + (churn(20, 10000) != 0);
        _exit(0);
    }
    say_end("shared", child);
    say("shared: %d", room[bytes - 1]);
    if (kind == 2) shmdt(room);
    else munmap(room, bytes);
    if (file >= 0) close(file);
}

// step protected(bytes: 300000 200000..2000000, key: 0 1)
void protected(long bytes, long key) {
    char *block = malloc(bytes);
    if (!block) return;
    char *page = (char *)(((uintptr_t)block + 4095) & ~4095UL);
    int tag = key ? pkey_alloc(0, 0) : -1;
    int code = tag >= 0 ? pkey_mprotect(page, 65536, PROT_READ, tag) : mprotect(page, 65536, PROT_READ);
    long sum = page[0] * 0 + churn(50, bytes / 10);
    // mprotect leaves the key, and a signal handler starts without rights to any key but 0.
    int back = pkey_mprotect(page, 65536, PROT_READ | PROT_WRITE, tag >= 0 ? 0 : -1);
    if (tag >= 0) pkey_free(tag);
    page[100] = 1;
    free(block);
    say("protected: %d %d, %ld faults", code, back, sum);
}

// step attributes(which: 0 1 2 3 4 5 6)
void attributes(long which) {
    char name[16] = "", wanted[16] = "a guest";
    long code = -1, found = 0;
    errno = 77;
    switch (which) {
    case 0: code = prctl(PR_SET_NAME, wanted); prctl(PR_GET_NAME, name); found = strcmp(name, wanted); break;
    case 1: code = prctl(PR_SET_PDEATHSIG, 0); break;
    case 2: code = prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); found = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0); prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); break;
    case 3: code = prctl(PR_SET_TIMERSLACK, 100000UL); found = prctl(PR_GET_TIMERSLACK); break;
    case 4: code = prctl(PR_SET_KEEPCAPS, 1L); found = prctl(PR_GET_KEEPCAPS); prctl(PR_SET_KEEPCAPS, 0L); break;
    case 5: code = prctl(12345, 1, 2, 3, 4); break;
    case 6: code = prctl(PR_GET_SECCOMP); break;
    }
    say("attributes %ld: %ld, errno %d, %ld", which, code, errno, found);
}

// step locked_blocks(bytes: 5000 1..60000, count: 1..20)
void locked_blocks(long bytes, long count) {
    void *blocks[20];
    long faults = 0;
    for (long each = 0; each < count; each++) {
        blocks[each] = malloc(bytes);
        faults += blocks[each] && mlock(blocks[each], bytes) != 0;
    }
    for (long each = 0; each < count; each++) {
        if (blocks[each]) munlock(blocks[each], bytes);
        free(blocks[each]);
    }
    say("locked_blocks: %ld faults", faults);
}
