#include <stdlib.h>
#include <string.h>

struct codec {
    unsigned char *dictionary, *window;
    size_t size;
};

__attribute__((noinline)) static unsigned char *codec_load_dictionary(size_t size) {
    unsigned char *dictionary = malloc(size);
    memset(dictionary, 7, size);
    return dictionary;
}

struct codec *codec_open(size_t size) {
    struct codec *codec = malloc(sizeof *codec);
    codec->size = size;
    codec->window = malloc(size * 4);
    memset(codec->window, 1, size * 4);
    codec->dictionary = codec_load_dictionary(size);
    return codec;
}

size_t codec_run(struct codec *codec, unsigned char *data, size_t size) {
    size_t sum = 0;
    for (size_t i = 0; i < size; i += 64)
        sum += data[i] ^ codec->dictionary[i % codec->size];
    return sum;
}

void codec_close(struct codec *codec, int ok) {
    free(codec->window);
    if (ok)
        free(codec->dictionary);
    free(codec);
}
