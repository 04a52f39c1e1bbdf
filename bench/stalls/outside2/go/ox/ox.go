// Package ox: arguments, calibrated work, starting exload, and a server with a goroutine per connection.
package ox

import (
	"encoding/binary"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

var (
	Port  = flag.Int("port", 21000, "")
	Fault = flag.String("fault", "none", "")
	Dir   = flag.String("dir", ".", "")
	Truth = flag.String("truth", "", "")
	Rate  = flag.Int("rate", 160, "")
	Work  = flag.Int("work", 300, "")
	Conns = flag.Int("conns", 12, "")
	Secs  = flag.Int("secs", 120, "")
	ipu   = 300.0
	Sink  uint64
)

func Spin(n int, x uint64) uint64 {
	x |= 1
	for i := 0; i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func Iters(us int) int { return int(float64(us) * ipu) }

func start(a ...string) {
	self, _ := os.Executable()
	c := exec.Command(filepath.Join(filepath.Dir(self), "exload"), a...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		panic(err)
	}
}

func HTTPPeer() {
	start("hpeer", strconv.Itoa(*Port+1))
	time.Sleep(150 * time.Millisecond)
}

func Init() {
	flag.Parse()
	best := 1e9
	for i := 0; i < 6; i++ {
		t := time.Now()
		Sink += Spin(600000, uint64(i))
		best = min(best, time.Since(t).Seconds())
	}
	ipu = 600000 / (best * 1e6)
	time.AfterFunc(time.Duration(*Secs)*time.Second, func() { os.Exit(0) })
}

// Serve answers each request after f(id).
func Serve(f func(conn int, id uint64)) {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(*Port))
	if err != nil {
		panic(err)
	}
	n := strconv.Itoa
	start("load", "keep", n(*Port), n(*Conns), n(*Rate), "0", n(*Secs), *Truth)
	for k := 0; ; k++ {
		c, err := l.Accept()
		if err != nil {
			continue
		}
		go func(k int) {
			defer c.Close()
			var b [16]byte
			for {
				if _, err := io.ReadFull(c, b[:]); err != nil {
					return
				}
				f(k, binary.LittleEndian.Uint64(b[:]))
				if _, err := c.Write(b[:]); err != nil {
					return
				}
			}
		}(k)
	}
}
