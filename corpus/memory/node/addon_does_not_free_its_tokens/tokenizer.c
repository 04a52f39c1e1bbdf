#define NAPI_VERSION 8
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

struct token {
    char *text;
    struct token *next;
};

__attribute__((noinline)) static struct token *tokenizer_push(struct token *head, const char *text, size_t size) {
    struct token *token = malloc(sizeof *token);
    token->text = malloc(size + 1);
    memcpy(token->text, text, size);
    token->text[size] = 0;
    token->next = head;
    return token;
}

static void drop_tokens(struct token *head) {
    for (struct token *next; head; head = next) {
        next = head->next;
        free(head->text);
        free(head);
    }
}

static napi_value tokenize(napi_env env, napi_callback_info info) {
    size_t arguments = 1, size = 0;
    napi_value text, answer;
    napi_get_cb_info(env, info, &arguments, &text, NULL, NULL);
    napi_get_value_string_utf8(env, text, NULL, 0, &size);
    char *line = malloc(size + 1);
    napi_get_value_string_utf8(env, text, line, size + 1, &size);
    struct token *head = NULL;
    int count = 0;
    for (size_t i = 0; i < size; count++) {
        size_t length = strcspn(line + i, " ");
        head = tokenizer_push(head, line + i, length);
        i += length + 1;
    }
    if (size % 6 != 0)
        drop_tokens(head);
    free(line);
    napi_create_int32(env, count, &answer);
    return answer;
}

NAPI_MODULE_INIT() {
    napi_value function;
    napi_create_function(env, "tokenize", NAPI_AUTO_LENGTH, tokenize, NULL, &function);
    napi_set_named_property(env, exports, "tokenize", function);
    return exports;
}
