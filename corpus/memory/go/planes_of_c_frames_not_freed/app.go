// A video service over a C codec. It keeps the last 1,200 frames; of an interlaced frame, one in four, the codec frees
// only the first of three planes.
package main

/*
#cgo CFLAGS: -O2 -g
#include <stdlib.h>
#include <string.h>

struct frame {
	char *plane[3];
};

__attribute__((noinline)) static char *frame_alloc_plane(int size) {
	char *plane = malloc(size);
	memset(plane, size, size);
	return plane;
}

static void *frame_new(int size) {
	struct frame *frame = malloc(sizeof *frame);
	for (int i = 0; i < 3; i++)
		frame->plane[i] = frame_alloc_plane(i ? size / 4 : size);
	return frame;
}

static int frame_sum(void *handle) {
	struct frame *frame = handle;
	return frame->plane[0][0] + frame->plane[2][1];
}

static void frame_free(void *handle, int progressive) {
	struct frame *frame = handle;
	free(frame->plane[0]);
	if (progressive) {
		free(frame->plane[1]);
		free(frame->plane[2]);
	}
	free(frame);
}
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

func main() {
	frames := make([]unsafe.Pointer, 1200)
	captions := map[int][]byte{}
	number, sum := 0, 0
	for end := time.Now().Add(120 * time.Second); time.Now().Before(end); {
		for i := 0; i < 3; i++ {
			number++
			frame := C.frame_new(C.int(4000 + number*37%12000))
			sum += int(C.frame_sum(frame))
			slot := &frames[number%len(frames)]
			if *slot != nil {
				C.frame_free(*slot, C.int(number%4))
			}
			*slot = frame
			captions[number%3000] = make([]byte, 1500)
			if number == 3000 {
				fmt.Println("ready")
			}
		}
		time.Sleep(13 * time.Millisecond)
	}
	fmt.Println(sum)
}
