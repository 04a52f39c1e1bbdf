// The exporter's service in Go: the POST goes out under the mutex that every span's end takes.
// Arguments as the C services have them: TRUTH SECONDS [fixed].
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var (
	spans sync.Mutex
	batch []int
	sink  uint64
)

func monotonic() uint64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return uint64(t.Sec)*1e9 + uint64(t.Nsec)
}

//go:noinline
func deliver(url string) {
	answer, err := http.Post(url, "text/plain", strings.NewReader("spans"))
	if err == nil {
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}

//go:noinline
func shipSpans(url string, fixed bool) {
	spans.Lock()
	taken := batch
	batch = nil
	if fixed {
		spans.Unlock()
		deliver(url)
		return
	}
	deliver(url)
	spans.Unlock()
	sink += uint64(len(taken))
}

//go:noinline
func endSpan(n int) {
	spans.Lock()
	batch = append(batch, n)
	spans.Unlock()
}

func work(us int) {
	for end := time.Now().Add(time.Duration(us) * time.Microsecond); time.Now().Before(end); {
	}
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	fixed := len(os.Args) > 3 && os.Args[3] == "fixed"
	truth, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	var told sync.Mutex
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(350 * time.Millisecond)
		w.Write([]byte("ok"))
	}))
	url := "http://" + listener.Addr().String()
	go func() {
		for {
			time.Sleep(600 * time.Millisecond)
			shipSpans(url, fixed)
		}
	}()
	for me := 0; me < 8; me++ {
		go func() {
			for turn := 0; ; turn++ {
				start := monotonic()
				work(200)
				endSpan(turn)
				if end := monotonic(); end-start >= 20e6 {
					told.Lock()
					fmt.Fprintf(truth, "stall %d %d %d\n", me, start, end)
					told.Unlock()
				}
				time.Sleep(time.Duration(2000+(turn*7919+me*997)%6000) * time.Microsecond)
			}
		}()
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
}
