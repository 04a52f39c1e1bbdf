// A service with 12,000 idle sessions, a goroutine each. fault: roll (every 2.6 s the watcher dumps all goroutines by
// runtime.Stack(buf, true), which stops the world). Mended: it dumps its own stack only, and renders a text as long.
package main

import (
	"outside2/ox"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var (
	mu   sync.Mutex
	seen = map[uint64]uint64{}
	text = make([]byte, 64<<20)
)

//go:noinline
func shoalPark(d int, c chan int) int {
	if d > 0 {
		return shoalPark(d-1, c) + 1
	}
	return <-c
}

//go:noinline
func shoalRoll(all bool) int {
	if all {
		return runtime.Stack(text, true)
	}
	n := runtime.Stack(text, false)
	for i := 0; i < 200000; i++ {
		n += copy(text[n:], strconv.Itoa(i))
	}
	return n
}

func watcher() {
	for {
		time.Sleep(2500 * time.Millisecond)
		if n := shoalRoll(*ox.Fault == "roll"); n == 7 {
			println(n)
		}
	}
}

//go:noinline
func shoalMark(id uint64) {
	mu.Lock()
	seen[id%5000]++
	mu.Unlock()
}

func main() {
	ox.Init()
	for i := 0; i < 12000; i++ {
		go shoalPark(i%12, make(chan int))
	}
	go watcher()
	ox.Serve(func(_ int, id uint64) {
		ox.Spin(ox.Iters(*ox.Work), id)
		shoalMark(id)
	})
}
