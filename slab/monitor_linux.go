package slab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
)

// With Guard, an access to released memory is a fault that Go cannot recover from, and a program
// cannot add to its own crash message. So a second process of the same executable waits for that
// message: it reads the address, finds it in the crash log, and prints whose memory it was. It
// never reaches main: this package's init runs it and exits. It ends with the first process.

// monitorVariable makes the second process what it is.
const monitorVariable = "SLAB_MONITOR"

// slotBytes hold what is known of one extent in the crash log.
const slotBytes = 8 << 10

// crashTextMax is how much of a crash message is searched for the address.
const crashTextMax = 4 << 20

var monitor struct {
	once sync.Once
	mu   sync.Mutex
	log  *os.File
	free []int // slots of extents that are no longer protected
	next int
}

func init() {
	if os.Getenv(monitorVariable) != "1" {
		return
	}
	log := os.NewFile(3, "crash log")
	text, _ := io.ReadAll(io.LimitReader(os.Stdin, crashTextMax))
	records, _ := io.ReadAll(io.NewSectionReader(log, 0, 1<<40))
	fmt.Fprint(os.Stderr, explainCrash(text, records))
	os.Exit(0)
}

// startMonitor starts the second process, once. Without it Guard still faults, but names nobody.
func startMonitor() {
	monitor.once.Do(func() {
		if err := launchMonitor(); err != nil {
			fmt.Fprintf(os.Stderr, "slab: a use after release will fault, but not say whose memory"+
				" it was: %v\n", err)
		}
	})
}

func launchMonitor() error {
	log, err := os.CreateTemp("", "slab-guard-*")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name()) // the two processes keep it open
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close() // SetCrashOutput has its own copy
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), monitorVariable+"=1")
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = r, os.Stderr, []*os.File{log}
	// A Ctrl-C for the first process is not for this one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := debug.SetCrashOutput(w, debug.CrashOptions{}); err != nil {
		return err
	}
	monitor.log = log
	return cmd.Process.Release()
}

// logFreed writes down whose memory a protected extent was. The caller holds the pool's mu.
func (p *Pool) logFreed(e *extent) {
	if e.record == nil {
		return
	}
	monitor.mu.Lock()
	defer monitor.mu.Unlock()
	if monitor.log == nil {
		return
	}
	if n := len(monitor.free); n > 0 {
		e.record.slot, monitor.free = monitor.free[n-1], monitor.free[:n-1]
	} else {
		monitor.next++
		e.record.slot = monitor.next
	}
	base := e.arena.base() + uintptr(e.offset)
	slot := make([]byte, slotBytes)
	text := fmt.Sprintf("%x %x %d pool %q, %s", base, base+uintptr(e.length), e.record.stride,
		p.o.Name, p.historyLocked(e))
	copy(slot[:slotBytes-1], text)
	if _, err := monitor.log.WriteAt(slot, int64(e.record.slot-1)*slotBytes); err != nil {
		p.faults.Add(1)
	}
}

// forgetFreed makes room in the log: the extent is usable again.
func (p *Pool) forgetFreed(e *extent) {
	if e.record == nil || e.record.slot == 0 {
		return
	}
	monitor.mu.Lock()
	defer monitor.mu.Unlock()
	monitor.free = append(monitor.free, e.record.slot)
	if _, err := monitor.log.WriteAt([]byte{0}, int64(e.record.slot-1)*slotBytes); err != nil {
		p.faults.Add(1)
	}
}

var crashAddress = regexp.MustCompile(`(?:fault address|addr=)\s*0x([0-9a-f]+)`)

// explainCrash finds the address of a Go crash message in the crash log. It is empty where there
// is no address, or none of ours.
func explainCrash(text, records []byte) string {
	match := crashAddress.FindSubmatch(text)
	if match == nil {
		return ""
	}
	address, err := strconv.ParseUint(string(match[1]), 16, 64)
	if err != nil {
		return ""
	}
	for ; len(records) >= slotBytes; records = records[slotBytes:] {
		slot, _, _ := bytes.Cut(records[:slotBytes], []byte{0})
		var base, end, stride uint64
		if n, _ := fmt.Sscanf(string(slot), "%x %x %d", &base, &end, &stride); n != 3 {
			continue
		}
		if address < base || address >= end {
			continue
		}
		_, rest, _ := bytes.Cut(slot, []byte(" pool "))
		return fmt.Sprintf("\nslab: use after release: address %#x is byte %d of row %d of a lease of pool %s",
			address, (address-base)%max(stride, 1), (address-base)/max(stride, 1), rest)
	}
	return ""
}
