#define NAPI_VERSION 8
#include <node_api.h>
#include <stdlib.h>
#include <string.h>
struct tok {
    char *s;
    struct tok *next;
};
__attribute__((noinline)) static struct tok *tokenizer_push(struct tok *h, const char *s, size_t n) {
    struct tok *t = malloc(sizeof *t);
    t->s = malloc(n + 1);
    memcpy(t->s, s, n);
    t->s[n] = 0;
    t->next = h;
    return t;
}
static napi_value tokenize(napi_env env, napi_callback_info info) {
    size_t ac = 1;
    napi_value av;
    napi_get_cb_info(env, info, &ac, &av, 0, 0);
    size_t n = 0;
    napi_get_value_string_utf8(env, av, 0, 0, &n);
    char *b = malloc(n + 1);
    napi_get_value_string_utf8(env, av, b, n + 1, &n);
    struct tok *h = 0;
    size_t i = 0;
    int c = 0;
    while (i < n) {
        size_t l = strcspn(b + i, " ");
        h = tokenizer_push(h, b + i, l);
        c++;
        i += l + 1;
    }
    int leak = n % 6 == 0;
    while (h) {
        struct tok *x = h->next;
        if (!leak) {
            free(h->s);
            free(h);
        }
        h = x;
    }
    free(b);
    napi_value r;
    napi_create_int32(env, c, &r);
    return r;
}
NAPI_MODULE_INIT() {
    napi_value f;
    napi_create_function(env, "tokenize", NAPI_AUTO_LENGTH, tokenize, 0, &f);
    napi_set_named_property(env, exports, "tokenize", f);
    return exports;
}
