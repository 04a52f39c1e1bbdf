// Go: a server of net/http, clients of another process. One fault by flag: mutex (a POST under it), rwmutex (fsync under it),
// busy (computing under a mutex). "fixed" is the same program mended.
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

type harbour struct {
	sync.Mutex
	catch map[string]int
}

var (
	kind  string
	fixed bool
	crew  = harbour{catch: map[string]int{}}
	tides sync.RWMutex
	truth *os.File
)

func monotonic() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

//go:noinline
func haddockReport(address string) {
	reply, err := http.Post(address+"/spans", "text/plain", bytes.NewReader([]byte("some")))
	if err != nil {
		os.Exit(0)
	}
	io.Copy(io.Discard, reply.Body)
	reply.Body.Close()
}

//go:noinline
func whitingSave(file *os.File) {
	block := make([]byte, 1<<20)
	for end := time.Now().Add(60 * time.Millisecond); time.Now().Before(end); {
		file.WriteAt(block, 0)
		file.Sync()
	}
}

//go:noinline
func pollackSettle(address string, file *os.File) {
	var lock sync.Locker = &crew
	if kind == "rwmutex" {
		lock = &tides
	}
	if !fixed {
		lock.Lock()
	}
	switch kind {
	case "mutex":
		haddockReport(address)
	case "rwmutex":
		whitingSave(file)
	case "busy":
		spin(45 * time.Millisecond)
	}
	if fixed {
		lock.Lock()
	}
	crew.catch["all"]++
	lock.Unlock()
}

func serve(to http.ResponseWriter, from *http.Request) {
	start := monotonic()
	spin(120 * time.Microsecond)
	if kind == "rwmutex" {
		tides.RLock()
		spin(3 * time.Microsecond)
		tides.RUnlock()
	} else {
		crew.Lock()
		crew.catch[from.URL.Path]++
		crew.Unlock()
	}
	end := monotonic()
	fmt.Fprintln(to, "landed")
	if end-start > 3_000_000 {
		fmt.Fprintf(truth, "stall 0 %d %d\n", start, end)
	}
}

// The other process: a collector that takes its time, and ten clients.
func clients(address string) {
	slow := func(to http.ResponseWriter, from *http.Request) {
		time.Sleep(85 * time.Millisecond)
		fmt.Fprintln(to, "kept")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	go http.Serve(listener, http.HandlerFunc(slow))
	fmt.Println("http://" + listener.Addr().String())
	for me := range 10 {
		go func() {
			client := &http.Client{Transport: &http.Transport{}}
			for {
				time.Sleep(time.Duration(4000+me*311) * time.Microsecond)
				reply, err := client.Get(address + "/" + strconv.Itoa(me))
				if err != nil {
					os.Exit(0)
				}
				io.Copy(io.Discard, reply.Body)
				reply.Body.Close()
			}
		}()
	}
	select {}
}

func main() {
	path, second := os.Args[1], os.Args[2]
	if second == "clients" {
		clients(path)
		return
	}
	seconds, _ := strconv.ParseFloat(second, 64)
	kind = os.Args[3]
	for _, word := range os.Args[4:] {
		fixed = fixed || word == "fixed"
	}
	truth, _ = os.Create(path)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(4)
	}
	go http.Serve(listener, http.HandlerFunc(serve))
	own, _ := os.Executable()
	other := exec.Command(own, "http://"+listener.Addr().String(), "clients")
	out, _ := other.StdoutPipe()
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	other.Start()
	var address string
	fmt.Fscanln(out, &address)
	file, _ := os.Create(path + ".data")
	os.Remove(path + ".data")
	go func() {
		for {
			time.Sleep(640 * time.Millisecond)
			pollackSettle(address, file)
		}
	}()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	other.Process.Kill()
}
