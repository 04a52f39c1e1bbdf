#include <stdlib.h>
#include <string.h>

struct encoder {
    char *state;
};

void *encoder_new(void) {
    struct encoder *encoder = malloc(sizeof *encoder);
    encoder->state = malloc(9000);
    memset(encoder->state, 0, 9000);
    return encoder;
}

__attribute__((noinline)) static char *encoder_make_window(struct encoder *encoder, int size) {
    char *window = malloc(size);
    memset(window, size, size);
    encoder->state[size % 9000] = 1;
    return window;
}

int encoder_feed(void *encoder, const char *data, int size) {
    char *window = encoder_make_window(encoder, size);
    int sum = 0;
    for (int i = 0; i < size; i++)
        sum += window[i] ^ data[i];
    if (size % 5)
        free(window);
    return sum;
}

void encoder_free(void *handle) {
    struct encoder *encoder = handle;
    free(encoder->state);
    free(encoder);
}
