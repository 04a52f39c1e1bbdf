// Requests read a lazily loaded table, and each third makes a quick HTTP call. Faults: conns (http.Transport with MaxConnsPerHost 2:
// every 2.7 s a report makes two slow calls of 260 ms, and requests wait for a connection), once (every 2.9 s the table
// is renewed: a new sync.Once, whose first user loads it over HTTP, 220 ms, while the others wait in Do).
// Mended: the report has a client of its own; the table is loaded beforehand and swapped.
package main

import (
	"fmt"
	"io"
	"net/http"
	"outside2/ox"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type table struct {
	once sync.Once
	rows map[uint64]uint64
}

var (
	cur    atomic.Pointer[table]
	shared = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2}}
	apart  = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2}}
)

//go:noinline
func fjordAsk(c *http.Client, ms int) int {
	q, _ := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/row", *ox.Port+1), nil)
	q.Header.Set("X-Hold", strconv.Itoa(ms))
	a, err := c.Do(q)
	if err != nil {
		return 0
	}
	b, _ := io.ReadAll(a.Body)
	a.Body.Close()
	return len(b)
}

//go:noinline
func (t *table) fjordFill() {
	n := fjordAsk(apart, 220)
	m := map[uint64]uint64{}
	for i := uint64(0); i < 500; i++ {
		m[i] = i * uint64(n)
	}
	t.rows = m
}

//go:noinline
func fjordLook(id uint64) uint64 {
	t := cur.Load()
	t.once.Do(t.fjordFill)
	return t.rows[id%500]
}

//go:noinline
func fjordTally(c *http.Client) {
	var w sync.WaitGroup
	for i := 0; i < 2; i++ {
		w.Add(1)
		go func() {
			fjordAsk(c, 260)
			w.Done()
		}()
	}
	w.Wait()
}

func tide() {
	for k := 0; ; k++ {
		time.Sleep(2600 * time.Millisecond)
		switch {
		case *ox.Fault == "conns":
			fjordTally(shared)
		case *ox.Fault == "once":
			cur.Store(&table{})
		case k%2 == 0:
			fjordTally(apart)
		default:
			t := &table{}
			t.once.Do(t.fjordFill)
			cur.Store(t)
		}
	}
}

func main() {
	ox.Init()
	ox.HTTPPeer()
	t := &table{}
	t.once.Do(t.fjordFill)
	cur.Store(t)
	go tide()
	ox.Serve(func(_ int, id uint64) {
		ox.Spin(ox.Iters(*ox.Work), id)
		if id%3 == 0 && fjordAsk(shared, 0) == 99 || fjordLook(id) == 99991 {
			println("odd")
		}
	})
}
