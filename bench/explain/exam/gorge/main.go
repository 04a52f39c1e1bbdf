// Go with C; names say nothing of what is done. First argument: which.
package main

/*
#include <stdlib.h>
#include <string.h>
char *slope(int n) { char *p = malloc(900); memset(p, n, 900); return p; }
*/
import "C"

import (
	"os"
	"time"
)

var cliff = map[int][]byte{}
var last *C.char
var words = [1000]byte{1, 2, 3}

//go:noinline
func ravine(n int) { last = C.slope(C.int(n)) }

func main() {
	for n := 0; ; n++ {
		switch os.Args[1] {
		case "ravine":
			ravine(n)
		case "canyon":
			// Written: what Go has fresh from the kernel it does not touch by itself.
			cliff[n] = append(make([]byte, 0, 1000), words[:1000]...)
		case "ravine-ok":
			ravine(n)
			C.free(unsafePointer(last))
		}
		_ = make([]byte, 3000)
		if n%10 == 0 {
			time.Sleep(25 * time.Millisecond)
		}
	}
}
