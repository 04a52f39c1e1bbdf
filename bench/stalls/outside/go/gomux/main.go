// goroutine per connection, sync.Mutex. faults: net, calc
package main

import (
	"encoding/binary"
	. "outside/exg"
	"io"
	"net"
	"sync"
	"time"
)

type ledger struct {
	mu   sync.Mutex
	rows [256]uint64
	n    uint64
}

//go:noinline
func (l *ledger) brindleUpload(ms uint64) { l.n += uint64(Ask(ms)) }

//go:noinline
func (l *ledger) brindleReindex(us float64) {
	x := l.n | 1
	for i := uint64(0); i < uint64(us*Ipu); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	l.n = x
}

//go:noinline
func (l *ledger) note(id uint64) { l.mu.Lock(); l.rows[id&255]++; Sink = Burn(60); l.mu.Unlock() }
func (l *ledger) talk(c net.Conn) {
	defer c.Close()
	var b [16]byte
	for {
		if _, e := io.ReadFull(c, b[:]); e != nil {
			return
		}
		x := Burn(Work)
		l.note(binary.LittleEndian.Uint64(b[:]) + x&1)
		if _, e := c.Write(b[:]); e != nil {
			return
		}
	}
}
func (l *ledger) brindleLoop() {
	other := &ledger{}
	for k := 0; ; k++ {
		time.Sleep(2600 * time.Millisecond)
		switch Fault {
		case "net":
			l.mu.Lock()
			l.brindleUpload(210)
			l.mu.Unlock()
		case "calc":
			l.mu.Lock()
			l.brindleReindex(140000)
			l.mu.Unlock()
		default:
			if k%2 == 0 {
				other.brindleUpload(210)
			} else {
				other.brindleReindex(140000)
			}
		}
	}
}
func main() {
	Args(21130, 180, 300, 10)
	s := Listen()
	Peer()
	l := &ledger{}
	go l.brindleLoop()
	Load("keep")
	for {
		c, e := s.Accept()
		if e == nil {
			go l.talk(c)
		}
	}
}
