package slab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of what Guard keeps out of use: addresses only, the pages are given back.
const (
	quarantineExtents = 1024
	quarantineBytes   = 1 << 30
)

// quarantine holds released, protected extents in the order of their release.
type quarantine struct {
	extents []*extent
	bytes   int
}

// isolate gives the extent's pages back, protects its addresses and keeps them out of use until
// many others have followed. The caller holds mu.
func (p *Pool) isolate(e *extent) {
	if e.dirty > 0 && p.discard(e, int64(e.dirty)) == 0 {
		p.file(e) // its pages stay: better reused than guarded
		return
	}
	if err := p.memory.protect(e.mem(), true); err != nil {
		p.faults.Add(1) // too many mappings
		p.file(e)
		return
	}
	e.state = quarantined
	p.logFreed(e)
	q := &p.guard
	q.extents = append(q.extents, e)
	q.bytes += e.length
	for len(q.extents) > quarantineExtents || q.bytes > quarantineBytes && len(q.extents) > 1 {
		p.pardon(q.extents[0])
		q.extents = q.extents[1:]
	}
}

// pardon makes the oldest extent usable again.
func (p *Pool) pardon(e *extent) {
	p.guard.bytes -= e.length
	if err := p.memory.protect(e.mem(), false); err != nil {
		p.faults.Add(1) // it stays out of use for good, which costs addresses only
		return
	}
	p.forgetFreed(e)
	e.state = free
	p.file(e)
}

// LeaseInfo describes a live lease.
type LeaseInfo struct {
	Rows, RowSize int
	Bytes         int64 // what it counts for in Stats.InUse
	Age           time.Duration
	Stack         string // where Get was called, with Stacks
}

// Live lists the leases that are not closed, the oldest first.
func (p *Pool) Live() []LeaseInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	list := make([]LeaseInfo, 0, p.live)
	p.eachLent(func(e *extent) {
		info := LeaseInfo{Rows: e.shape.rows, RowSize: e.shape.rowSize, Bytes: int64(e.account),
			Age: now - e.born}
		if e.record != nil {
			info.Stack = stackText(e.record.taken)
		}
		list = append(list, info)
	})
	slices.SortFunc(list, func(a, b LeaseInfo) int { return cmp.Compare(b.Age, a.Age) })
	return list
}

// Explain says what the pools know about an address, in several lines: whose it is, whether it is
// lent, and under Stacks where its newest lease came from and ended. It is empty for an address
// of no open pool.
func Explain(address uintptr) string {
	for _, p := range openPools() {
		p.mu.Lock()
		e := p.extentAt(address)
		text := ""
		if e != nil {
			text = p.explain(e, address)
		}
		p.mu.Unlock()
		if text != "" {
			return text
		}
	}
	return ""
}

func (p *Pool) explain(e *extent, address uintptr) string {
	var b strings.Builder
	state := "released"
	if e.state == used {
		state = "lent"
	}
	offset := int(address - e.arena.base() - uintptr(e.offset))
	fmt.Fprintf(&b, "address %#x is %s memory of pool %q, byte %d", address, state, p.o.Name, offset)
	if r := e.record; r != nil && r.stride > 0 {
		fmt.Fprintf(&b, " (row %d, byte %d)", offset/r.stride, offset%r.stride)
	}
	b.WriteString(p.historyLocked(e))
	return b.String()
}

// plural says "1 lease", "2 leases".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
