// Requests add to a batch under a sync.Mutex, and use a table under a sync.RWMutex (one of ten writes to it). --fault
// post: the request that finds the batch 2.3 s old POSTs it, 190 ms, with the mutex. --fault read_lock: a goroutine
// computes 140 ms with the RWMutex read-locked, every 2.45 s; the next writer waits for it, and all readers behind
// that writer. Healthy: another goroutine posts the batch; the computing is on a copy.
package main

import (
	"bytes"
	. "corpus/service"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var (
	batchMutex sync.Mutex
	batch      bytes.Buffer
	batchStart = time.Now()
	tableMutex sync.RWMutex
	table      [2048]uint64
	toPost     = make(chan []byte, 16)
)

//go:noinline
func postBatch(text []byte) int {
	answer, err := http.DefaultClient.Do(HTTPRequest("POST", 190, bytes.NewReader(text)))
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	size, _ := io.Copy(io.Discard, answer.Body)
	return int(size)
}

//go:noinline
func addToBatch(id uint64) {
	batchMutex.Lock()
	defer batchMutex.Unlock()
	batch.WriteString(strconv.FormatUint(id, 10) + "\n")
	if time.Since(batchStart) < 2300*time.Millisecond {
		return
	}
	text := bytes.Clone(batch.Bytes())
	batch.Reset()
	if *Fault == "post" {
		postBatch(text)
	} else {
		select {
		case toPost <- text:
		default:
		}
	}
	batchStart = time.Now()
}

//go:noinline
func mixWeights(weights *[2048]uint64, rounds int) uint64 {
	x := uint64(1)
	for i := 0; i < rounds; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		x += weights[i&2047]
	}
	return x
}

func recomputeWeights() {
	rounds := Rounds(140000)
	for {
		time.Sleep(2450 * time.Millisecond)
		switch *Fault {
		case "read_lock":
			tableMutex.RLock()
			Sink += mixWeights(&table, rounds)
			tableMutex.RUnlock()
		case "none":
			tableMutex.RLock()
			weights := table
			tableMutex.RUnlock()
			Sink += mixWeights(&weights, rounds)
		}
	}
}

//go:noinline
func useTable(id uint64) uint64 {
	if id%10 == 0 {
		tableMutex.Lock()
		defer tableMutex.Unlock()
		table[id&2047] = id
		return id
	}
	tableMutex.RLock()
	defer tableMutex.RUnlock()
	return table[id&2047]
}

func main() {
	Start(160, 300, 12)
	StartPeer("http-peer")
	go func() {
		for text := range toPost {
			postBatch(text)
		}
	}()
	go recomputeWeights()
	Serve(func(_ int, id uint64) {
		Spin(Rounds(*Work), id)
		if *Fault != "read_lock" {
			addToBatch(id)
		}
		if *Fault != "post" {
			useTable(id)
		}
	})
}
