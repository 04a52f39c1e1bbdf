// media proxy: Go over a small C codec; a stream that ends in the middle is closed, but its look-ahead block is not given back
package main

/*
#cgo CFLAGS: -O2 -g
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned char *ahead, *out; unsigned n; } stream;
__attribute__((noinline)) stream *stream_open(unsigned n) {
	stream *s = calloc(1, sizeof *s);
	s->n = n;
	s->out = malloc(n / 2);
	memset(s->out, 1, n / 2);
	return s;
}
__attribute__((noinline)) void stream_fill(stream *s, unsigned v) {
	if (!s->ahead)
		s->ahead = malloc(s->n);
	memset(s->ahead, v, s->n);
}
void stream_close(stream *s, int partial) {
	if (!partial)
		free(s->ahead);
	free(s->out);
	free(s);
}
*/
import "C"
import (
	"fmt"
	"sync"
	"time"
)

func pump(worker int, until time.Time, group *sync.WaitGroup) {
	defer group.Done()
	var open [150]*C.stream
	seed := uint32(worker*7919 + 1)
	lines := 0
	for time.Now().Before(until) {
		for k := 0; k < 6; k++ {
			seed = seed*1664525 + 1013904223
			i := int(seed>>8) % len(open)
			if open[i] != nil {
				partial := C.int(0)
				if seed>>20%5 == 0 {
					partial = 1
				}
				C.stream_close(open[i], partial)
			}
			open[i] = C.stream_open(C.uint(2000 + seed>>12%6000))
			C.stream_fill(open[i], 7)
			lines += len(fmt.Sprintf("stream %d of worker %d", i, worker))
		}
		time.Sleep(12 * time.Millisecond)
	}
	fmt.Println(lines)
}

func main() {
	var group sync.WaitGroup
	for w := 0; w < 2; w++ {
		group.Add(1)
		go pump(w, time.Now().Add(150*time.Second), &group)
	}
	group.Wait()
}
