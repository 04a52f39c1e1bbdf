// Requests count under a sync.Mutex. --fault gather: every fortieth request of a connection makes three HTTP calls of
// 90 ms to a slow peer at once and waits for them with a sync.WaitGroup. --fault beside is healthy too: a goroutine
// computes 60 ms every 700 ms. Healthy: no request makes calls.
package main

import (
	. "corpus/service"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

var (
	mutex    sync.Mutex
	counted  uint64
	requests [1024]int // by connection
)

func fetchOffer() {
	answer, err := http.DefaultClient.Do(HTTPRequest("POST", 90, strings.NewReader("offer")))
	if err != nil {
		return
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

//go:noinline
func gatherOffers() {
	var group sync.WaitGroup
	for range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			fetchOffer()
		}()
	}
	group.Wait()
}

func main() {
	Start(900, 200, 8)
	StartPeer("http-peer")
	go func() {
		for *Fault == "beside" {
			time.Sleep(700 * time.Millisecond)
			Sink += Burn(60_000)
		}
	}()
	Serve(func(connection int, _ uint64) {
		Sink += Burn(*Work)
		mutex.Lock()
		counted++
		mutex.Unlock()
		count := &requests[connection&1023]
		*count++
		if *Fault == "gather" && *count%40 == 0 {
			gatherOffers()
		}
	})
}
