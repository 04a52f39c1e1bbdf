// A resolver that passes the texts of zones to C as C.CString. It keeps 800 zones; the return for a bad checksum, one
// zone in five, comes before the free.
package main

/*
#include <stdlib.h>

static unsigned zone_checksum(const char *text) {
	unsigned sum = 5381;
	while (*text)
		sum = sum * 33 + (unsigned char)*text++;
	return sum;
}
*/
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unsafe"
)

type zone struct {
	text     *C.char
	checksum uint32
}

func loadZone(number int) (zone, bool) {
	loaded := zone{text: C.CString(strings.Repeat("example. IN A 10.0.0.1\n", 100+number*31%500))}
	loaded.checksum = uint32(C.zone_checksum(loaded.text))
	if number%5 == 0 {
		return zone{}, false
	}
	return loaded, true
}

func main() {
	zones := make([]zone, 800)
	answers := map[int][]byte{}
	for i := 0; i < 4000; i++ {
		answers[i] = make([]byte, 3000)
	}
	end := time.Now().Add(120 * time.Second)
	for number := 1; time.Now().Before(end); number++ {
		if loaded, ok := loadZone(number); ok {
			C.free(unsafe.Pointer(zones[number%len(zones)].text))
			zones[number%len(zones)] = loaded
		}
		answers[number%4000] = make([]byte, 3000)
		if number == len(zones) {
			fmt.Println("ready")
		}
		time.Sleep(6 * time.Millisecond)
	}
}
