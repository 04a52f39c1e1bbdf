// Go service with a C codec: interlaced frames lose their chroma planes
package main

/*
#cgo CFLAGS: -O2 -g
#include "codec.h"
*/
import "C"
import (
	"fmt"
	"time"
	"unsafe"
)

func main() {
	t0 := time.Now()
	ring := make([]unsafe.Pointer, 1200)
	meta := map[int][]byte{}
	s := 0
	for i := 0; time.Since(t0) < 150*time.Second; {
		for k := 0; k < 3; k++ {
			i++
			p := C.frame_new(C.int(4000 + i*37%12000))
			s += int(C.frame_sum(p))
			j := i % 1200
			if ring[j] != nil {
				keep := 0
				if i%4 == 0 {
					keep = 1
				}
				C.frame_free(ring[j], C.int(keep))
			}
			ring[j] = p
			meta[i%3000] = make([]byte, 1500)
		}
		time.Sleep(13 * time.Millisecond)
	}
	fmt.Println(s)
}
