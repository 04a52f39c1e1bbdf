// Go with C in it; the argument says whose heap grows: go, c, malloc (C's, called from Go), or none.
package main

/*
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void keep_page(int id) {
    char *page = malloc(3000);
    memset(page, id, 3000);
    __asm__ volatile("" ::"r"(page) : "memory");
}
*/
import "C"

import (
	"os"
	"time"
)

var kept [][]byte

//go:noinline
func borrow() {
	C.memset(C.malloc(3000), 1, 3000)
}

func main() {
	which := ""
	if len(os.Args) > 1 {
		which = os.Args[1]
	}
	for {
		for i := 0; i < 20; i++ {
			switch which {
			case "c":
				C.keep_page(C.int(i))
			case "malloc":
				borrow()
			case "go":
				kept = append(kept, make([]byte, 4000))
			default:
				C.free(C.malloc(100))
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
