/* A library that calls itself libjvm.so and describes structures that no HotSpot has. CASE: which of them.
 *
 *   0  rows of no width     1  names without an end     2  rows that point anywhere     3  rows without an end
 */
#include <stdint.h>

struct row {
    const char *type, *field, *of;
    int32_t is_static;
    uint64_t offset;
    void *address;
};

struct size {
    const char *type, *super;
    int32_t oop, integer, is_unsigned;
    uint64_t size;
};

static char endless[1 << 20];
static struct row rows[30000];
static struct size sizes[30000];

struct row *gHotSpotVMStructs = rows;
struct size *gHotSpotVMTypes = sizes;
uint64_t gHotSpotVMStructEntryTypeNameOffset = 0;
uint64_t gHotSpotVMStructEntryFieldNameOffset = 8;
uint64_t gHotSpotVMStructEntryIsStaticOffset = 24;
uint64_t gHotSpotVMStructEntryOffsetOffset = 32;
uint64_t gHotSpotVMStructEntryAddressOffset = 40;
uint64_t gHotSpotVMStructEntryArrayStride = sizeof(struct row);
uint64_t gHotSpotVMTypeEntryTypeNameOffset = 0;
uint64_t gHotSpotVMTypeEntrySizeOffset = 32;
uint64_t gHotSpotVMTypeEntryArrayStride = sizeof(struct size);

__attribute__((constructor)) static void fill(void)
{
    for (unsigned at = 0; at < sizeof endless; at++)
        endless[at] = 'x';
    for (unsigned at = 0; at < 30000; at++) {
        rows[at] = (struct row){"CodeCache", "_heaps", "", 1, UINT64_MAX - 7, (void *)(UINT64_MAX - 7)};
        sizes[at] = (struct size){"PcDesc", "", 0, 0, 0, 0};
        if (CASE == 1)
            rows[at].type = sizes[at].type = endless;
        if (CASE == 2)
            rows[at].type = (const char *)(uintptr_t)(at % 2 ? 8 : UINT64_MAX - 3);
    }
    if (CASE == 0)
        gHotSpotVMStructEntryArrayStride = gHotSpotVMTypeEntryArrayStride = 0;
    if (CASE == 2)
        gHotSpotVMStructEntryFieldNameOffset = UINT64_MAX;
}
