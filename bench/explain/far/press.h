struct press;
struct press *press_open(int level);
int press_feed(struct press *press, const char *text);
void press_close(struct press *press);
void *codec_new(int kind);
int codec_kind(void *codec);
