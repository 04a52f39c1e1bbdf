// Settings files are parsed, 120 a second. Each parser has a raw buffer and a decoded one, of which little is written.
// Of a file that is refused, 45 in 100, the parser is not deleted ("lost"), or deleted as of any other ("deleted").
#include "../common.h"

#define RAW (16 * 1024)
#define DECODED (48 * 1024)
#define WRITTEN (5 * 1024)
struct parser {
    char *raw, *decoded;
};

NOINLINE void open_parser(struct parser *parser) {
    parser->raw = malloc(RAW);
    parser->decoded = malloc(DECODED);
    memset(parser->raw, 'k', WRITTEN);
    memset(parser->decoded, 'v', WRITTEN);
    use(parser->raw);
    use(parser->decoded);
}

NOINLINE void delete_parser(struct parser *parser) {
    free(parser->raw);
    free(parser->decoded);
}

NOINLINE int load_settings(int refused, int deletes_all) {
    struct parser parser;
    open_parser(&parser);
    if (refused && !deletes_all)
        return -1;
    delete_parser(&parser);
    return refused ? -1 : 0;
}

int main(int count, char **arguments) {
    int deletes_all = count > 1 && strcmp(arguments[1], "deleted") == 0;
    int failed = 0;
    ready();
    for (;;) {
        failed += load_settings(rng(0, 99) < 45, deletes_all);
        use(&failed);
        nap(8);
    }
}
