// Go with and without C; names say nothing of what is done. First argument: which.
package main

/*
#include <stdlib.h>
#include <string.h>
static size_t felt_length(const char *s) { return strlen(s); }
static char *weft_copy(const char *s) { return strdup(s); }
*/
import "C"

import (
	"os"
	"strings"
	"time"
	"unsafe"
)

var kept = map[int][]byte{}

// tweed: a C string that is made in Go and not freed.
//
//go:noinline
func tweed(text string) int { return int(C.felt_length(C.CString(text))) }

// linen: the copy that C makes is not freed, the string is.
//
//go:noinline
func linen(text string) {
	s := C.CString(text)
	defer C.free(unsafe.Pointer(s))
	C.weft_copy(s)
}

// satin: bodies in a map of Go's.
//
//go:noinline
func satin(n int) { kept[n] = make([]byte, 3000); kept[n][n%3000] = 1 }

// denim: the last 300.
//
//go:noinline
func denim(n int) { kept[n%300] = make([]byte, 20000) }

func main() {
	text := strings.Repeat("thread ", 200)
	for n := 0; ; n++ {
		switch os.Args[1] {
		case "tweed":
			tweed(text)
		case "linen":
			linen(text)
		case "satin":
			satin(n)
		case "denim":
			denim(n)
		}
		if n%10 == 0 {
			time.Sleep(30 * time.Millisecond)
		}
	}
}
