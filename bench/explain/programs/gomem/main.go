// Go with C in it: goroutines that never end, a slice that only grows, C memory that is lost or kept, a sync.Pool.
package main

/*
#include <stdlib.h>
#include <string.h>
static void *volatile last;
__attribute__((noinline)) void c_store(int size) { last = memset(malloc(size), 1, size); }
*/
import "C"

import (
	"os"
	"time"
)

var kept [][]byte
var index = map[string][]string{}

func traffic() int {
	sum := 0
	for i := 0; i < 300; i++ {
		sum += len(make([]byte, i*11))
	}
	return sum
}

func waitForever(body []byte) { <-make(chan int); _ = body }

func main() {
	for turn := 0; ; turn++ {
		traffic()
		switch os.Args[1] {
		case "goroutines":
			for i := 0; i < 5; i++ {
				go waitForever(make([]byte, 2000))
			}
		case "slice":
			kept = append(kept, make([]byte, 20000))
		case "c":
			for i := 0; i < 8; i++ {
				C.c_store(1200)
			}
		case "flat":
			index["a"] = append(index["a"][:0], "b")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
