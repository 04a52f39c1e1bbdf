// A channel with one token in it is a lock: requests take the token by receiving and give it back by sending. Six
// goroutines take their jobs from an unbuffered channel. --fault network: every 640 ms a goroutine asks a peer for 75
// ms with the token. --fault beside is healthy too: a goroutine computes, and one wakes in a select. Healthy: the
// goroutine asks before it takes the token.
package main

import (
	. "corpus/service"
	"net"
	"time"
)

type job struct {
	request Request
	conn    net.Conn
}

var (
	token = make(chan struct{}, 1)
	jobs  = make(chan job)
	count uint64
)

//go:noinline
func refreshRates() {
	if *Fault == "network" {
		<-token
		Sink += uint64(AskPeer(75))
	} else {
		Sink += uint64(AskPeer(75))
		<-token
	}
	count++
	token <- struct{}{}
}

//go:noinline
func serveJobs() {
	for job := range jobs {
		Sink += Burn(*Work)
		<-token
		count++
		token <- struct{}{}
		job.conn.Write(job.request[:])
	}
}

func runMaintenance() {
	for {
		time.Sleep(640 * time.Millisecond)
		if *Fault == "beside" {
			Sink += Burn(30_000)
		} else {
			refreshRates()
		}
	}
}

func waitInSelect() {
	never := make(chan int)
	for tick := time.NewTicker(40 * time.Millisecond); ; {
		select {
		case <-tick.C:
			Sink += Burn(50)
		case <-never:
		}
	}
}

func readConnection(conn net.Conn) {
	defer conn.Close()
	for {
		job := job{conn: conn}
		if !job.request.Read(conn) {
			return
		}
		jobs <- job
	}
}

func main() {
	Start(470, 170, 10)
	StartPeer("peer")
	listener := Listen()
	token <- struct{}{}
	go runMaintenance()
	if *Fault == "beside" {
		go waitInSelect()
	}
	for range 6 {
		go serveJobs()
	}
	StartLoad("keep")
	Accept(listener, func(conn net.Conn) { go readConnection(conn) })
}
