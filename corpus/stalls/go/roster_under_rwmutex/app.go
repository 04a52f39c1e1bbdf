// Requests read a roster under sync.RWMutex.RLock; a goroutine renews it every 2.6 s. --fault http: it makes an HTTP
// call of 200 ms with the write lock. Healthy: it calls first and takes the lock after.
package main

import (
	. "corpus/service"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

type roster struct {
	mutex    sync.RWMutex
	rows     map[uint64]uint64
	revision int
}

//go:noinline
func (r *roster) fetchRevision() int {
	answer, err := http.DefaultClient.Do(HTTPRequest("POST", 200, strings.NewReader("revision")))
	if err != nil {
		return 0
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	return len(body)
}

//go:noinline
func (r *roster) renewRoster(inside bool) {
	size := 0
	if !inside {
		size = r.fetchRevision()
	}
	r.mutex.Lock()
	if inside {
		size = r.fetchRevision()
	}
	r.revision += size
	r.mutex.Unlock()
}

//go:noinline
func (r *roster) findMember(id uint64) uint64 {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.rows[id%400] + uint64(r.revision)
}

func main() {
	Start(160, 300, 12)
	StartPeer("http-peer")
	members := &roster{rows: map[uint64]uint64{}}
	for i := uint64(0); i < 400; i++ {
		members.rows[i] = i * i
	}
	go func() {
		for {
			time.Sleep(2600 * time.Millisecond)
			members.renewRoster(*Fault == "http")
		}
	}()
	Serve(func(_ int, id uint64) {
		x := Spin(Rounds(*Work), id)
		if members.findMember(id) == x {
			println("a row that is its own hash")
		}
	})
}
