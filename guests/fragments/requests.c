// Requests of every kind: ordinary, zero, huge, overflowing, misaligned; and what asks the allocator about itself.
#include "guest.h"
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// step requests(count: 1 20 500 1..2000, bytes: 1 24 1..3000000 100 1000 4096 70000 1048576)
void requests(long count, long bytes) { say("requests: %ld faults", churn(count, bytes)); }

// step zero(unused: 0)
void zero(long unused) {
    (void)unused;
    errno = 77;
    void *plain = malloc(0), *cleared = calloc(0, 8), *other = calloc(8, 0);
    say("zero: %d %d %d, differ %d, errno %d", plain != NULL, cleared != NULL, other != NULL, plain != cleared, errno);
    void *grown = realloc(plain, 100);
    memset(grown, 1, 100);
    void *gone = realloc(grown, 0);
    say("zero: realloc to nothing gives %d, errno %d", gone != NULL, errno);
    free(gone);
    free(cleared);
    free(other);
    free(NULL);
    say("zero: errno %d", errno);
}

// step refused(kind: 0 1 2 3 4 5 6 7 8 9 10 11)
void refused(long kind) {
    static volatile size_t huge = SIZE_MAX / 2 + 1, most = SIZE_MAX, third = SIZE_MAX / 3;
    void *volatile got = NULL, *kept = NULL;
    int code = 0;
    errno = 77;
    switch (kind) {
    case 0: got = malloc(huge); break;
    case 1: got = malloc(most - 8); break;
    case 2: got = calloc(third, 4); break;
    case 3: got = calloc(huge, 2); break;
    case 4: kept = malloc(100); memset(kept, 5, 100); got = realloc(kept, huge); break;
    case 5: kept = malloc(100); memset(kept, 5, 100); got = reallocarray(kept, third, 4); break;
    case 6: code = posix_memalign((void **)&got, 3, 100); break;
    case 7: code = posix_memalign((void **)&got, 64, huge); break;
    case 8: got = memalign(64, most - 16); break;
    case 9: got = aligned_alloc(4096, huge); break;
    case 10: got = pvalloc(most - 100); break;
    case 11: code = posix_memalign((void **)&got, 0, 8); break;
    }
    int errno_after = errno;
    int held = !kept || ((char *)kept)[99] == 5;
    say("refused %ld: got %d, code %d, errno %d, old block %d", kind, got != NULL, code, errno_after, held);
    free(kept);
}

// step aligned(alignment: 8 16 64 256 4096 65536 2097152, bytes: 1 100 5000 300000 1..2000000)
void aligned(long alignment, long bytes) {
    void *blocks[4] = {0};
    errno = 77;
    int code = posix_memalign(&blocks[0], alignment, bytes);
    blocks[1] = memalign(alignment, bytes);
    blocks[2] = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    blocks[3] = valloc(bytes);
    int good = 0;
    for (int each = 0; each < 4; each++) {
        good += blocks[each] && (uintptr_t)blocks[each] % (each == 3 ? 4096 : alignment) == 0;
        if (blocks[each]) memset(blocks[each], 3, bytes);
    }
    // Each is grown once: the alignment goes, the content stays.
    int held = 0;
    for (int each = 0; each < 4; each++) {
        blocks[each] = realloc(blocks[each], bytes * 2);
        held += ((char *)blocks[each])[bytes - 1] == 3;
    }
    say("aligned: code %d, %d good, %d held, errno %d", code, good, held, errno);
    for (int each = 0; each < 4; each++) free(blocks[each]);
}

// step resized(start: 0 1 100 5000 200000 1..400000, factor: 2 3 7, rounds: 3 8)
void resized(long start, long factor, long rounds) {
    unsigned char *block = NULL;
    long bytes = start, faults = 0, old = 0;
    errno = 77;
    for (long round = 0; round < rounds && bytes < 60000000; round++) {
        block = realloc(block, bytes ? bytes : 1);
        if (!block) break;
        for (long each = 0; each < old; each += 997) faults += block[each] != (unsigned char)(each / 997);
        for (long each = 0; each < bytes; each += 997) block[each] = (unsigned char)(each / 997);
        old = bytes;
        bytes = bytes * factor + 1;
    }
    block = realloc(block, 10);
    faults += old > 0 && block[0] != 0;
    free(block);
    say("resized: %ld faults, errno %d", faults, errno);
}

// step cleared(count: 1 7 3000 1..2000, bytes: 1 48 5000 1..1000)
void cleared(long count, long bytes) {
    long dirty = 0;
    for (int round = 0; round < 3; round++) {
        unsigned char *block = calloc(count, bytes);
        for (long each = 0; block && each < count * bytes; each++) dirty += block[each] != 0;
        if (block) memset(block, 0xff, count * bytes);
        free(block);
    }
    say("cleared: %ld bytes dirty", dirty);
}

// step usable(bytes: 1..1000000 0 1 24 25 1000 4097 140000 4000000)
void usable(long bytes) {
    char *block = malloc(bytes);
    size_t room = malloc_usable_size(block);
    memset(block, 9, room);
    char *grown = realloc(block, room + 1);
    say("usable: enough %d, of null %zu, kept %d", room >= (size_t)bytes, malloc_usable_size(NULL),
        room == 0 || grown[room - 1] == 9);
    free(grown);
}

// musl has none of these.
#ifdef __GLIBC__
// step about(kind: 0 1 2 3 4)
void about(long kind) {
    errno = 77;
    void *block = malloc(3000000);
    memset(block, 1, 3000000);
    if (leaves_errno()) errno = 77;
    switch (kind) {
    case 0: {
        struct mallinfo2 info = mallinfo2();
        say("about: live enough %d, errno %d", info.uordblks + info.hblkhd >= 3000000, errno);
        break;
    }
    case 1: free(block); block = NULL; malloc_trim(0); say("about: trimmed, errno %d", errno); break;
    case 2: say("about: mallopt %d, errno %d", mallopt(M_MMAP_THRESHOLD, 100000), errno); break;
    case 3: say("about: mallopt %d, errno %d", mallopt(M_ARENA_MAX, 2), errno); break;
    case 4: say("about: mallopt %d, errno %d", mallopt(M_PERTURB, 85), errno); break;
    }
    free(block);
}
#endif

// step text(rounds: 1 50)
void text(long rounds) {
    long length = 0;
    for (long round = 0; round < rounds; round++) {
        char *copy = strdup("a word"), *part = strndup("another word", 5);
        length += strlen(copy) + strlen(part);
        free(copy);
        free(part);
    }
    say("text: %ld", length);
}
