// Requests read a table that is loaded when it is first used; every third makes a quick HTTP call with a client of
// two connections. --fault connections: every 2.7 s a report makes two slow calls of 260 ms with that client, and
// requests wait for a connection. --fault once: every 2.6 s the table is renewed: a new sync.Once, whose first user
// loads it over HTTP, 220 ms, while the others wait in Do. Healthy: the report has a client of its own; a table is
// loaded and then swapped.
package main

import (
	. "corpus/service"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

type table struct {
	once sync.Once
	rows map[uint64]uint64
}

var (
	current  atomic.Pointer[table]
	shared   = clientOfTwoConnections()
	separate = clientOfTwoConnections()
)

func clientOfTwoConnections() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2}}
}

//go:noinline
func queryBackend(client *http.Client, ms int) int {
	answer, err := client.Do(HTTPRequest("GET", ms, nil))
	if err != nil {
		return 0
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	return len(body)
}

//go:noinline
func (t *table) loadRows() {
	size := queryBackend(separate, 220)
	rows := map[uint64]uint64{}
	for i := uint64(0); i < 500; i++ {
		rows[i] = i * uint64(size)
	}
	t.rows = rows
}

//go:noinline
func lookupRow(id uint64) uint64 {
	t := current.Load()
	t.once.Do(t.loadRows)
	return t.rows[id%500]
}

//go:noinline
func buildReport(client *http.Client) {
	var group sync.WaitGroup
	for range 2 {
		group.Add(1)
		go func() {
			queryBackend(client, 260)
			group.Done()
		}()
	}
	group.Wait()
}

func swapTable() {
	t := &table{}
	t.once.Do(t.loadRows)
	current.Store(t)
}

func runMaintenance() {
	for count := 0; ; count++ {
		time.Sleep(2600 * time.Millisecond)
		switch {
		case *Fault == "connections":
			buildReport(shared)
		case *Fault == "once":
			current.Store(&table{})
		case count%2 == 0:
			buildReport(separate)
		default:
			swapTable()
		}
	}
}

func main() {
	Start(160, 300, 12)
	StartPeer("http-peer")
	swapTable()
	go runMaintenance()
	Serve(func(_ int, id uint64) {
		Spin(Rounds(*Work), id)
		if id%3 == 0 && queryBackend(shared, 0) == 99 || lookupRow(id) == 99991 {
			println("an answer that cannot be")
		}
	})
}
