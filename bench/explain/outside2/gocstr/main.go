// Go resolver: zone texts go to C as C.CString; the early return for a bad checksum comes before the free
package main

/*
#include <stdlib.h>
static unsigned zone_sum(const char *s) { unsigned h = 5381; while (*s) h = h * 33 + (unsigned char)*s++; return h; }
*/
import "C"
import (
	"fmt"
	"strings"
	"time"
	"unsafe"
)

type zone struct {
	text *C.char
	sum  uint32
}

func loadZone(n int) (zone, bool) {
	z := zone{text: C.CString(strings.Repeat("example. IN A 10.0.0.1\n", 100+n*31%500))}
	z.sum = uint32(C.zone_sum(z.text))
	if n%5 == 0 {
		return zone{}, false
	}
	return z, true
}

func main() {
	t0 := time.Now()
	ring := make([]zone, 800)
	keep := map[int][]byte{}
	bad := 0
	for n := 1; time.Since(t0) < 150*time.Second; n++ {
		if z, ok := loadZone(n); ok {
			C.free(unsafe.Pointer(ring[n%800].text))
			ring[n%800] = z
		} else {
			bad++
		}
		keep[n%4000] = make([]byte, 3000)
		time.Sleep(6 * time.Millisecond)
	}
	fmt.Println(bad)
}
