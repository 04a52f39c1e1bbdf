// Go with C as services use it. First argument: which.
package main

/*
#include <stdlib.h>
#include <string.h>
struct reply { char *text; int size; };
static struct reply *make_reply(int size) {
	struct reply *r = malloc(sizeof *r);
	r->text = memset(malloc(size), 'r', size);
	r->size = size;
	return r;
}
static void free_reply(struct reply *r) { free(r); }
*/
import "C"

import (
	"fmt"
	"os"
	"time"
)

var sessions = map[string][]byte{}

// handle frees the reply and not its text.
//
//go:noinline
func handle(n int) int {
	r := C.make_reply(1500)
	defer C.free_reply(r)
	return int(r.size)
}

//go:noinline
func login(n int) { sessions[fmt.Sprintf("session-%d", n)] = make([]byte, 2000) }

//go:noinline
func encode(n int) int { return len(fmt.Sprint(make([]int, 200), n)) }

func main() {
	for n := 0; ; n++ {
		switch os.Args[1] {
		case "handle":
			handle(n)
		case "login":
			login(n)
		}
		encode(n)
		if n%10 == 0 {
			time.Sleep(25 * time.Millisecond)
		}
	}
}
