// Go: nine goroutines that take jobs from a channel. One fault by flag: post (net/http's POST awaited under a Mutex), sum (computing
// under a RWMutex), sync (fsync under a Mutex). "fixed" is the same program mended.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

type weir struct {
	kind  string
	fixed bool
	mu    sync.Mutex
	rw    sync.RWMutex
	spans []int64
	sum   uint64
	url   string
	file  *os.File
	truth *os.File
}

func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func turn(d time.Duration) (n uint64) {
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
	}
	return n
}

func (w *weir) log(word string, me int, start, least int64) {
	if end := monotonic(); end-start >= least {
		fmt.Fprintf(w.truth, "%s %d %d %d\n", word, me, start, end)
	}
}

//go:noinline
func (w *weir) lampreySend(spans []int64) {
	answer, err := http.Post(w.url, "text/plain", bytes.NewReader(make([]byte, 8*len(spans)+1)))
	if err != nil {
		return
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

//go:noinline
func (w *weir) elverStore() {
	block := make([]byte, 1<<19)
	for end := time.Now().Add(90 * time.Millisecond); time.Now().Before(end); {
		w.file.WriteAt(block, 0)
		w.file.Sync()
	}
}

//go:noinline
func (w *weir) burbotFlush() {
	switch w.kind {
	case "post":
		w.mu.Lock()
		spans := w.spans
		w.spans = nil
		if w.fixed {
			w.mu.Unlock()
			w.lampreySend(spans)
			return
		}
		defer w.mu.Unlock()
		w.lampreySend(spans)
	case "sum":
		if w.fixed {
			n := turn(60 * time.Millisecond)
			w.rw.Lock()
			w.sum += n
			w.rw.Unlock()
			return
		}
		w.rw.Lock()
		w.sum += turn(60 * time.Millisecond)
		w.rw.Unlock()
	case "sync":
		if !w.fixed {
			w.mu.Lock()
			defer w.mu.Unlock()
		}
		w.elverStore()
	}
}

func (w *weir) job(me int) {
	turn(200 * time.Microsecond)
	start := monotonic()
	if w.kind == "sum" {
		w.rw.RLock()
		w.log("wait", me, start, 1_000_000)
		turn(2 * time.Microsecond)
		w.rw.RUnlock()
		return
	}
	w.mu.Lock()
	w.log("wait", me, start, 1_000_000)
	w.spans = append(w.spans, start)
	if len(w.spans) > 4096 {
		w.spans = w.spans[:0]
	}
	w.mu.Unlock()
}

// The other process: a collector that takes 300 ms to answer.
func collector() {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	fmt.Println(door.Addr().String())
	http.Serve(door, http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body)
		time.Sleep(300 * time.Millisecond)
		to.WriteHeader(http.StatusAccepted)
	}))
}

func main() {
	if os.Args[1] == "collector" {
		collector()
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	w := &weir{kind: os.Args[3]}
	for _, arg := range os.Args[4:] {
		w.fixed = w.fixed || arg == "fixed"
	}
	w.truth, _ = os.Create(os.Args[1])
	w.file, _ = os.Create(os.Args[1] + ".data")
	other := exec.Command(os.Args[0], "collector")
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, _ := other.StdoutPipe()
	if other.Start() != nil {
		os.Exit(4)
	}
	var address [64]byte
	n, _ := said.Read(address[:])
	w.url = "http://" + string(bytes.TrimSpace(address[:n])) + "/spans"
	jobs := make(chan int64, 1024)
	for me := range 9 {
		go func() {
			for came := range jobs {
				w.job(me)
				w.log("stall", me, came, 3_000_000)
			}
		}()
	}
	go func() {
		for range time.Tick(820 * time.Millisecond) {
			w.burbotFlush()
		}
	}()
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for range time.Tick(2 * time.Millisecond) {
		if time.Now().After(end) {
			break
		}
		select {
		case jobs <- monotonic():
		default:
		}
	}
	other.Process.Kill()
}
