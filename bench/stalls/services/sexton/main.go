// Go: eight goroutines that make their own requests, asleep for 1 to 4 ms between two; or ("hired") one for each. One fault by flag:
// bell (net/http's POST awaited under a Mutex), rope (computing under a RWMutex), vault (a Mutex, a second one behind it, fsync
// there), crypt (a WaitGroup of three fetches from a slow peer in every fortieth request). belfry has none: a goroutine that
// computes. "fixed" is the same program mended.
package main

import (
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var (
	kind   string
	fixed  bool
	tower  sync.Mutex
	nave   sync.RWMutex
	cellar sync.Mutex
	truth  *os.File
	peer   string
	turns  uint64
)

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

func told(word string, me int, start, least int64) {
	if end := monotonic(); end-start >= least {
		fmt.Fprintf(truth, "%s %d %d %d\n", word, me, start, end)
	}
}

func fetch() {
	reply, err := http.Post(peer, "text/plain", strings.NewReader("toll"))
	if err != nil {
		os.Exit(0)
	}
	io.Copy(io.Discard, reply.Body)
	reply.Body.Close()
}

//go:noinline
func marbleToll() {
	if !fixed {
		tower.Lock()
	}
	fetch()
	if fixed {
		tower.Lock()
	}
	turns++
	tower.Unlock()
}

//go:noinline
func graniteCount() {
	if !fixed {
		nave.Lock()
	}
	n := turn(50 * time.Millisecond)
	if fixed {
		nave.Lock()
	}
	turns += n
	nave.Unlock()
}

//go:noinline
func slateBury(file *os.File) {
	block := make([]byte, 1<<19)
	if !fixed {
		cellar.Lock()
		defer cellar.Unlock()
	}
	for end := time.Now().Add(70 * time.Millisecond); time.Now().Before(end); {
		file.WriteAt(block, 0)
		file.Sync()
	}
}

//go:noinline
func chalkGather() {
	var all sync.WaitGroup
	for range 3 {
		all.Add(1)
		go func() {
			defer all.Done()
			fetch()
		}()
	}
	all.Wait()
}

func background(file *os.File) {
	for {
		time.Sleep(700 * time.Millisecond)
		switch kind {
		case "bell":
			marbleToll()
		case "rope":
			graniteCount()
		case "vault":
			slateBury(file)
		case "belfry":
			turns += turn(60 * time.Millisecond)
		}
	}
}

func walk() {
	for {
		time.Sleep(2 * time.Millisecond)
		tower.Lock()
		cellar.Lock()
		turns++
		cellar.Unlock()
		tower.Unlock()
	}
}

func request(me, count int) {
	turn(200 * time.Microsecond)
	start := monotonic()
	if kind == "rope" {
		nave.RLock()
		told("wait", me, start, 1_000_000)
		nave.RUnlock()
	} else {
		tower.Lock()
		told("wait", me, start, 1_000_000)
		turns++
		tower.Unlock()
	}
	if kind == "crypt" && !fixed && count%40 == 0 {
		chalkGather()
	}
}

func rest(me int) {
	seed := rand.New(rand.NewSource(int64(me)))
	for count := 1; ; count++ {
		time.Sleep(time.Duration(1000+seed.Intn(3000)) * time.Microsecond)
		start := monotonic()
		request(me, count)
		told("stall", me, start, 4_000_000)
	}
}

// A goroutine for each request.
func hire() {
	for me := 1; ; me++ {
		time.Sleep(time.Millisecond)
		go func() {
			start := monotonic()
			request(me, me)
			told("stall", me, start, 4_000_000)
		}()
	}
}

// The other process: a collector that takes its time.
func collector() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	fmt.Println(listener.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	http.Serve(listener, http.HandlerFunc(func(to http.ResponseWriter, from *http.Request) {
		time.Sleep(90 * time.Millisecond)
		fmt.Fprintln(to, "kept")
	}))
}

func main() {
	if os.Args[1] == "collector" {
		collector()
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	truth, _ = os.Create(os.Args[1])
	kind, fixed = os.Args[3], os.Args[len(os.Args)-1] == "fixed"
	other := exec.Command("/proc/self/exe", "collector")
	out, _ := other.StdoutPipe()
	other.StdinPipe()
	other.Start()
	fmt.Fscan(out, &peer)
	peer = "http://" + peer + "/toll"
	file, _ := os.Create(os.Args[1] + ".data")
	go background(file)
	if kind == "vault" {
		go walk()
	}
	if slices.Contains(os.Args, "hired") {
		go hire()
	} else {
		for me := range 8 {
			go rest(me)
		}
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	other.Process.Kill()
}
