// Package service is what the Go services share: arguments, CPU work of a known length, a server with a goroutine for
// each connection, and the starting of the client and of the peer. See ../../common/load.c.
package service

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

var (
	Fault = flag.String("fault", "none", "the variant; none is the healthy one")
	Dir   = flag.String("dir", ".", "folder for the service's files")
	Work  = flag.Int("work", 300, "microseconds that a request computes")

	port        = flag.Int("port", 21000, "")
	truth       = flag.String("truth", "", "file for what the requests took")
	rate        = flag.Int("rate", 160, "requests a second")
	connections = flag.Int("connections", 12, "")
	burst       = flag.Int("burst", 0, "1: all connections send at the same instant")
	seconds     = flag.Int("secs", 120, "how long the service runs")

	roundsPerUs = 300.0
	// Sink keeps results, so that the compiler does not leave out the work.
	Sink uint64
)

// Request is what clients send, and what they get back: an id, and how long a peer has to wait.
type Request [16]byte

func (r *Request) ID() uint64 { return binary.LittleEndian.Uint64(r[:]) }

// Read reads one request; false when the connection ended.
func (r *Request) Read(conn net.Conn) bool {
	_, err := io.ReadFull(conn, r[:])
	return err == nil
}

// Start reads the arguments. The defaults are the service's usual load.
func Start(defaultRate, defaultWork, defaultConnections int) {
	*rate, *Work, *connections = defaultRate, defaultWork, defaultConnections
	flag.Parse()
	best := 1e9
	for i := uint64(0); i < 6; i++ {
		start := time.Now()
		Sink += Spin(600000, i)
		best = min(best, time.Since(start).Seconds())
	}
	roundsPerUs = 600000 / (best * 1e6)
	time.AfterFunc(time.Duration(*seconds)*time.Second, func() { os.Exit(0) })
}

func Spin(rounds int, x uint64) uint64 {
	x |= 1
	for i := 0; i < rounds; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// Rounds of Spin that take so long on a CPU that is otherwise idle.
func Rounds(us int) int { return int(float64(us) * roundsPerUs) }

// Burn computes for so long.
func Burn(us int) uint64 { return Spin(Rounds(us), 5) }

// runLoad starts the program `load`, which lies beside the service's own.
func runLoad(arguments ...any) {
	own, _ := os.Executable()
	words := make([]string, len(arguments))
	for i, argument := range arguments {
		words[i] = fmt.Sprint(argument)
	}
	command := exec.Command(filepath.Join(filepath.Dir(own), "load"), words...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		panic(err)
	}
}

// StartLoad starts the client; mode is `keep` or `connect`.
func StartLoad(mode string) {
	runLoad(mode, *port, *connections, *rate, *burst, *seconds, *truth)
}

// StartPeer starts a slow process on the next port; kind is `peer` or `http-peer`.
func StartPeer(kind string) {
	runLoad(kind, *port+1)
	time.Sleep(150 * time.Millisecond)
}

// HTTPRequest is one that the `http-peer` answers after so long.
func HTTPRequest(method string, holdMs int, body io.Reader) *http.Request {
	request, _ := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d/", *port+1), body)
	request.Header.Set("X-Hold", strconv.Itoa(holdMs))
	return request
}

// AskPeer is a round trip to the `peer`, which answers after so long.
func AskPeer(ms uint64) byte {
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", *port+1))
	if err != nil {
		return 0
	}
	defer conn.Close()
	var request Request
	binary.LittleEndian.PutUint64(request[8:], ms)
	conn.Write(request[:])
	io.ReadFull(conn, request[:])
	return request[8]
}

func Listen() net.Listener {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		panic(err)
	}
	return listener
}

// Accept gives each connection to take, for ever.
func Accept(listener net.Listener, take func(net.Conn)) {
	for {
		if conn, err := listener.Accept(); err == nil {
			take(conn)
		}
	}
}

// Serve starts the client and answers each request after handle(connection, id); a goroutine for each connection.
func Serve(handle func(connection int, id uint64)) {
	listener := Listen()
	StartLoad("keep")
	count := -1
	Accept(listener, func(conn net.Conn) {
		count++
		go serveConnection(conn, count, handle)
	})
}

func serveConnection(conn net.Conn, number int, handle func(connection int, id uint64)) {
	defer conn.Close()
	var request Request
	for request.Read(conn) {
		handle(number, request.ID())
		if _, err := conn.Write(request[:]); err != nil {
			return
		}
	}
}

// CreateFile makes a file in the service's folder.
func CreateFile(name string) *os.File {
	file, err := os.Create(filepath.Join(*Dir, name))
	if err != nil {
		panic(err)
	}
	return file
}
