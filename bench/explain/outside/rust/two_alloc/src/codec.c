#include <stdlib.h>
#include <string.h>
struct codec{ unsigned char*dict; unsigned char*win; size_t n; };
__attribute__((noinline)) static unsigned char*codec_load_dictionary(size_t n){ unsigned char*d=malloc(n); memset(d,7,n); return d; }
struct codec*codec_open(size_t n){ struct codec*c=malloc(sizeof*c); c->n=n; c->win=malloc(n*4); memset(c->win,1,n*4); c->dict=codec_load_dictionary(n); return c; }
size_t codec_run(struct codec*c,unsigned char*p,size_t n){ size_t s=0; for(size_t i=0;i<n;i+=64) s+=p[i]^c->dict[i%c->n]; return s; }
void codec_close(struct codec*c,int ok){ free(c->win); if(ok) free(c->dict); free(c); }
