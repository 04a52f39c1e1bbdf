// Requests read a roster under RWMutex.RLock. Fault: call (the writer asks over HTTP, ~200 ms, under Lock, every 2.8 s).
// Mended: asks first, then takes Lock.
package main

import (
	"fmt"
	"io"
	"net/http"
	"outside2/ox"
	"strings"
	"sync"
	"time"
)

type roster struct {
	mu   sync.RWMutex
	rows map[uint64]uint64
	rev  int
}

//go:noinline
func (r *roster) overhear() int {
	q, _ := http.NewRequest("POST", fmt.Sprintf("http://127.0.0.1:%d/roster", *ox.Port+1), strings.NewReader("rev"))
	q.Header.Set("X-Hold", "200")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0
	}
	b, _ := io.ReadAll(a.Body)
	a.Body.Close()
	return len(b)
}

//go:noinline
func (r *roster) renew(inside bool) {
	n := 0
	if !inside {
		n = r.overhear()
	}
	r.mu.Lock()
	if inside {
		n = r.overhear()
	}
	r.rev += n
	r.mu.Unlock()
}

//go:noinline
func (r *roster) find(id uint64) uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.rows[id%400] + uint64(r.rev)
}

func main() {
	ox.Init()
	ox.HTTPPeer()
	r := &roster{rows: map[uint64]uint64{}}
	for i := uint64(0); i < 400; i++ {
		r.rows[i] = i * i
	}
	go func() {
		for {
			time.Sleep(2600 * time.Millisecond)
			r.renew(*ox.Fault == "call")
		}
	}()
	ox.Serve(func(_ int, id uint64) {
		x := ox.Spin(ox.Iters(*ox.Work), id)
		if r.find(id) == x {
			println("odd")
		}
	})
}
