// An image service with tiles of 160 to 400 KB, which malloc maps by themselves. The tile of a corrupt image stays
// when the exception passes.
#include "../common.h"
#include <deque>
#include <stdexcept>
#include <vector>

struct Img {
    int w, h;
    unsigned char *px;
};

NOINLINE unsigned char *decode_tile(int w, int h) {
    unsigned char *p = (unsigned char *)malloc((size_t)w * h * 4);
    for (size_t i = 0; i < (size_t)w * h * 4; i += 512)
        p[i] = i >> 9;
    return p;
}

NOINLINE void check_crc(unsigned n) {
    if (n % 9 == 0)
        throw std::runtime_error("crc");
}

NOINLINE Img load_image(unsigned n) {
    Img i{200 + (int)(n % 120), 200 + (int)(n % 50), nullptr};
    i.px = decode_tile(i.w, i.h);
    check_crc(n);
    return i;
}

NOINLINE std::vector<unsigned char> make_thumbnail(const Img &i) {
    std::vector<unsigned char> t(64 * 64 * 3);
    for (size_t k = 0; k < t.size(); k++)
        t[k] = i.px[(k * 17) % ((size_t)i.w * i.h * 4)];
    return t;
}

int main() {
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    std::deque<Img> recent;
    std::deque<std::vector<unsigned char>> ths;
    unsigned n = 0, bad = 0;
    ready();
    for (;;) {
        try {
            Img i = load_image(++n);
            ths.push_back(make_thumbnail(i));
            if (ths.size() > 1500)
                ths.pop_front();
            recent.push_back(i);
            if (recent.size() > 60) {
                free(recent.front().px);
                recent.pop_front();
            }
        } catch (std::exception &) {
            bad++;
        }
        nap(40);
    }
}
