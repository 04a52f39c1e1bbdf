// A native module for Node: digest(text) loses the copy it made.
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *copy_text(napi_env env, napi_value text) {
    size_t n = 0;
    napi_get_value_string_utf8(env, text, NULL, 0, &n);
    char *copy = malloc(n + 1);
    napi_get_value_string_utf8(env, text, copy, n + 1, &n);
    return copy;
}
static napi_value digest(napi_env env, napi_callback_info info) {
    size_t count = 1; napi_value text, answer;
    napi_get_cb_info(env, info, &count, &text, NULL, NULL);
    napi_create_uint32(env, (unsigned char)copy_text(env, text)[0], &answer);
    return answer;
}
static napi_value init(napi_env env, napi_value exports) {
    napi_value function;
    napi_create_function(env, "digest", NAPI_AUTO_LENGTH, digest, NULL, &function);
    napi_set_named_property(env, exports, "digest", function);
    return exports;
}
NAPI_MODULE(NODE_GYP_MODULE_NAME, init)
