void *frame_new(int n);
int frame_sum(void *v);
void frame_free(void *v, int keep_chroma);
