package exg

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

var Port, Rate, Conns, Burst, Secs = 0, 0, 0, 0, 120
var Work, Ipu float64
var Fault, Dir, Truth = "none", ".", ""
var Sink uint64

func Spin(n, x uint64) uint64 {
	x |= 1
	for i := uint64(0); i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
func Burn(us float64) uint64 { return Spin(uint64(us*Ipu), 5) }
func at(s string) int        { n, _ := strconv.Atoi(s); return n }
func Args(port, rate int, work float64, conns int) {
	Port, Rate, Work, Conns = port, rate, work, conns
	for i := 1; i+1 < len(os.Args); i += 2 {
		v := os.Args[i+1]
		switch os.Args[i] {
		case "--port":
			Port = at(v)
		case "--fault":
			Fault = v
		case "--dir":
			Dir = v
		case "--truth":
			Truth = v
		case "--rate":
			Rate = at(v)
		case "--work":
			Work = float64(at(v))
		case "--conns":
			Conns = at(v)
		case "--burst":
			Burst = at(v)
		case "--secs":
			Secs = at(v)
		}
	}
	time.AfterFunc(time.Duration(Secs)*time.Second, func() { os.Exit(0) })
	best := 1e9
	for i := uint64(0); i < 6; i++ {
		t := time.Now()
		Sink += Spin(600000, i)
		if d := time.Since(t).Seconds(); d < best {
			best = d
		}
	}
	Ipu = 600000 / (best * 1e6)
}
func run(a ...string) {
	self, _ := os.Executable()
	c := exec.Command(filepath.Join(filepath.Dir(self), "exload"), a...)
	c.Stdout = os.Stdout
	if e := c.Start(); e != nil {
		panic(e)
	}
}
func Load(mode string) {
	run("load", mode, fmt.Sprint(Port), fmt.Sprint(Conns), fmt.Sprint(Rate), fmt.Sprint(Burst), fmt.Sprint(Secs), Truth)
}
func Peer() { run("peer", fmt.Sprint(Port+1)); time.Sleep(150 * time.Millisecond) }
func Listen() net.Listener {
	l, e := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", Port))
	if e != nil {
		panic(e)
	}
	return l
}
func Ask(ms uint64) byte {
	c, e := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", Port+1))
	if e != nil {
		return 0
	}
	defer c.Close()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[8:], ms)
	c.Write(b[:])
	io.ReadFull(c, b[:])
	return b[8]
}
