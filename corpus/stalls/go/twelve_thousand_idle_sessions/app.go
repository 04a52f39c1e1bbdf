// A service with 12,000 idle sessions, a goroutine each. --fault dump: every 2.5 s a goroutine dumps the stacks of
// all by runtime.Stack, which stops the world. Healthy: it dumps its own stack only, and renders a text as long.
package main

import (
	. "corpus/service"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var (
	mutex sync.Mutex
	seen  = map[uint64]uint64{}
	text  = make([]byte, 64<<20)
)

//go:noinline
func awaitMessage(depth int, messages chan int) int {
	if depth > 0 {
		return awaitMessage(depth-1, messages) + 1
	}
	return <-messages
}

//go:noinline
func dumpStacks(all bool) int {
	if all {
		return runtime.Stack(text, true)
	}
	size := runtime.Stack(text, false)
	for i := 0; i < 200000; i++ {
		size += copy(text[size:], strconv.Itoa(i))
	}
	return size
}

func writeDiagnostics() {
	for {
		time.Sleep(2500 * time.Millisecond)
		if size := dumpStacks(*Fault == "dump"); size == 7 {
			println(size)
		}
	}
}

//go:noinline
func countRequest(id uint64) {
	mutex.Lock()
	seen[id%5000]++
	mutex.Unlock()
}

func main() {
	Start(160, 300, 12)
	for i := 0; i < 12000; i++ {
		go awaitMessage(i%12, make(chan int))
	}
	go writeDiagnostics()
	Serve(func(_ int, id uint64) {
		Spin(Rounds(*Work), id)
		countRequest(id)
	})
}
