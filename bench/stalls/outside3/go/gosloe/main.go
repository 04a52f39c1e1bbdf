// Requests add to a batch under a sync.Mutex and look up a hedge under a sync.RWMutex (one of ten writes to it). Faults:
// post (the request that finds the batch 2.3 s old POSTs it, 190 ms, Mutex kept), weave (sloeWarp computes 140 ms with
// the RWMutex READ-held, every 2.6 s; the next writer waits for it and every reader behind that writer). Mended: the
// batch goes to a goroutine that posts it; sloeWarp computes on a copy.
package main

import (
	"bytes"
	"io"
	"net/http"
	"outside2/ox"
	"strconv"
	"sync"
	"time"
)

var (
	mu    sync.Mutex
	batch bytes.Buffer
	since = time.Now()
	rw    sync.RWMutex
	hedge [2048]uint64
	out   = make(chan []byte, 16)
)

//go:noinline
func sloePost(b []byte) int {
	q, _ := http.NewRequest("POST", "http://127.0.0.1:"+strconv.Itoa(*ox.Port+1)+"/", bytes.NewReader(b))
	q.Header.Set("X-Hold", "190")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	n, _ := io.Copy(io.Discard, r.Body)
	return int(n)
}

//go:noinline
func sloeAdd(id uint64) {
	mu.Lock()
	defer mu.Unlock()
	batch.WriteString(strconv.FormatUint(id, 10) + "\n")
	if time.Since(since) < 2300*time.Millisecond {
		return
	}
	b := bytes.Clone(batch.Bytes())
	batch.Reset()
	if *ox.Fault == "post" {
		sloePost(b)
	} else {
		select {
		case out <- b:
		default:
		}
	}
	since = time.Now()
}

//go:noinline
func sloeWeave(h *[2048]uint64, n int) uint64 {
	x := uint64(1)
	for i := 0; i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		x += h[i&2047]
	}
	return x
}

func sloeWarp() {
	n := ox.Iters(140000)
	for {
		time.Sleep(2450 * time.Millisecond)
		if *ox.Fault == "weave" {
			rw.RLock()
			ox.Sink += sloeWeave(&hedge, n)
			rw.RUnlock()
		} else if *ox.Fault == "none" {
			rw.RLock()
			c := hedge
			rw.RUnlock()
			ox.Sink += sloeWeave(&c, n)
		}
	}
}

//go:noinline
func sloeLook(id uint64) uint64 {
	if id%10 == 0 {
		rw.Lock()
		defer rw.Unlock()
		hedge[id&2047] = id
		return id
	}
	rw.RLock()
	defer rw.RUnlock()
	return hedge[id&2047]
}

func main() {
	ox.Init()
	ox.HTTPPeer()
	go func() {
		for b := range out {
			sloePost(b)
		}
	}()
	go sloeWarp()
	ox.Serve(func(k int, id uint64) {
		ox.Spin(ox.Iters(*ox.Work), id)
		if *ox.Fault != "weave" {
			sloeAdd(id)
		}
		if *ox.Fault != "post" {
			sloeLook(id)
		}
	})
}
