// accepted connections go through a channel to 6 workers; RWMutex; results pass one collector goroutine. faults: fsync, chan
package main

import (
	"encoding/binary"
	. "outside/exg"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

type job struct {
	id   uint64
	done chan bool
}

var mu sync.RWMutex
var tab [512]uint64
var coll = make(chan job)
var f, f2 *os.File

//go:noinline
func tarnWriteManifest(f *os.File, ms int) (n uint64) {
	var b [4096]byte
	t := time.Now()
	for time.Since(t) < time.Duration(ms)*time.Millisecond {
		f.WriteAt(b[:], int64(n%512)*4096)
		f.Sync()
		n++
	}
	return n
}

//go:noinline
func tarnRead(id uint64) uint64 {
	mu.RLock()
	x := tab[id&511]
	x += Burn(50) & 1
	mu.RUnlock()
	return x
}

//go:noinline
func tarnSettle(ms int) uint64 { return tarnWriteManifest(f2, ms) + 1 }
func collector() {
	next := time.Now().Add(3 * time.Second)
	for j := range coll {
		if Fault == "chan" && time.Now().After(next) {
			Sink += tarnSettle(160)
			next = time.Now().Add(2700 * time.Millisecond)
		}
		j.done <- true
	}
}
func tarnKeeper() {
	for {
		time.Sleep(2800 * time.Millisecond)
		switch Fault {
		case "fsync":
			mu.Lock()
			tab[1] += tarnWriteManifest(f, 170)
			mu.Unlock()
		case "chan":
		default:
			Sink += tarnWriteManifest(f, 170)
		}
	}
}
func work(ch chan net.Conn) {
	done := make(chan bool, 1)
	for c := range ch {
		var b [16]byte
		if _, e := io.ReadFull(c, b[:]); e == nil {
			x := Burn(Work)
			id := binary.LittleEndian.Uint64(b[:])
			x += tarnRead(id)
			coll <- job{id, done}
			<-done
			c.Write(b[:])
		}
		c.Close()
	}
}
func main() {
	Args(21140, 150, 350, 9)
	f, _ = os.Create(Dir + "/tarn.man")
	f2, _ = os.Create(Dir + "/tarn.set")
	s := Listen()
	ch := make(chan net.Conn, 64)
	for i := 0; i < 6; i++ {
		go work(ch)
	}
	go collector()
	go tarnKeeper()
	Load("conn")
	for {
		c, e := s.Accept()
		if e == nil {
			ch <- c
		}
	}
}
