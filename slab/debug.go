package slab

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// DebugMode is a set of checks that cost too much for production.
type DebugMode uint

const (
	// Guard protects memory as soon as it is released and keeps it out of use for a while: the
	// next access faults at once, and the crash names where the lease came from and where it was
	// released. Rows that are released one by one are protected if they consist of whole pages.
	Guard DebugMode = 1 << iota
	// Poison fills released memory with [PoisonByte] and checks it before it is lent again, and
	// puts canaries behind rows, which are checked at release.
	Poison
	// Stacks remembers where each lease was made and closed: for [Pool.Live], errors, crashes, and
	// a warning when the collector finds a lease that nobody closed.
	Stacks
)

// Debug holds for every pool that is made later, together with Options.Debug. It starts with what
// the environment variable SLAB_DEBUG says: "guard", "poison", "stacks", separated by commas, or
// "all".
var Debug = parseDebug(os.Getenv("SLAB_DEBUG"))

const (
	// PoisonByte fills released memory.
	PoisonByte = 0xdb
	canaryByte = 0xca
	// canaryBytes behind each row; as long as the alignment, so that rows stay aligned.
	canaryBytes = rowAlign
	stackDepth  = 24
)

func parseDebug(text string) (mode DebugMode) {
	names := map[string]DebugMode{"guard": Guard, "poison": Poison, "stacks": Stacks,
		"all": Guard | Poison | Stacks}
	for _, word := range strings.Split(text, ",") {
		word = strings.ToLower(strings.TrimSpace(word))
		bits, known := names[word]
		if !known && word != "" {
			fmt.Fprintf(os.Stderr, "slab: SLAB_DEBUG: %q is none of guard, poison, stacks, all\n", word)
		}
		mode |= bits
	}
	return mode
}

// A record is what Stacks knows about the newest lease of an extent.
type record struct {
	rows, rowSize, stride int
	born                  time.Duration
	taken, ended          []uintptr
	slot                  int // of the crash log, with Guard
}

func callers(skip int) []uintptr {
	pcs := make([]uintptr, stackDepth)
	return pcs[:runtime.Callers(skip+2, pcs)]
}

func stackText(pcs []uintptr) string {
	if len(pcs) == 0 {
		return "\t(not recorded: add slab.Stacks)\n"
	}
	var b strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}

// history says where an extent's newest lease came from and where it ended.
func (p *Pool) history(e *extent) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.historyLocked(e)
}

func (p *Pool) historyLocked(e *extent) string {
	r := e.record
	if r == nil {
		return "\n(nothing recorded: add slab.Stacks)"
	}
	text := fmt.Sprintf("\nlease of %d rows of %d bytes, allocated at:\n%s", r.rows, r.rowSize,
		stackText(r.taken))
	if r.ended != nil {
		text += "released at:\n" + stackText(r.ended)
	}
	return text
}

// prepare is the part of Get that touches the memory: checks and fills of the debug modes, and
// Zero.
func (p *Pool) prepare(l *Lease) {
	e := l.e
	if p.o.Debug&Poison != 0 {
		p.checkPoison(e)
	}
	if p.o.Zero {
		p.zero(e)
	}
	if p.o.Debug&Poison != 0 {
		l.eachGap(func(gap []byte) { fill(gap, canaryByte) })
	}
	if p.o.Debug&(Stacks|Guard) == 0 {
		return
	}
	r := &record{rows: l.shape.rows, rowSize: l.shape.rowSize, stride: l.shape.stride, born: e.born}
	if p.o.Debug&Stacks != 0 {
		r.taken = callers(3)
		text := fmt.Sprintf("slab: a lease of pool %q, %d rows of %d bytes, was lost without Close;"+
			" its memory stays taken. Allocated at:\n%s", p.o.Name, r.rows, r.rowSize,
			stackText(r.taken))
		runtime.AddCleanup(l, p.warnLost, lostLease{e, e.issue, text})
	}
	p.mu.Lock()
	e.record = r
	p.mu.Unlock()
}

type lostLease struct {
	e     *extent
	issue uint32
	text  string
}

// lost is called when the collector found a lease; if it was never closed, that is a leak.
func (p *Pool) warnLost(l lostLease) {
	p.mu.Lock()
	leaked := l.e.state == used && l.e.issue == l.issue
	p.mu.Unlock()
	if leaked {
		p.lost.Add(1)
		fmt.Fprint(os.Stderr, l.text)
	}
}

func (p *Pool) zero(e *extent) {
	mem := e.mem()
	if !p.o.Sparse {
		clear(mem[:e.dirty])
		return
	}
	// What a sparse extent holds is only sampled; clearing it all would make it all resident.
	if e.issue > 1 || e.dirty > 0 {
		if p.memory.discard(mem) != nil {
			clear(mem)
		}
	}
}

func fill(b []byte, value byte) {
	for i := range b {
		b[i] = value
	}
}

// eachGap visits the bytes between the rows, and those from the last row to the end.
func (l *Lease) eachGap(visit func([]byte)) {
	s, mem := l.shape, l.e.mem()
	for i := 0; i < s.rows-1; i++ {
		visit(mem[i*s.stride+s.rowSize : (i+1)*s.stride])
	}
	visit(mem[(s.rows-1)*s.stride+s.rowSize : s.rows*s.stride])
}

// inspect runs the checks and fills that a released lease gets. The caller holds the lease's mu.
func (l *Lease) inspect(op string) error {
	p, e := l.pool(), l.e
	var err error
	if p.o.Debug&Guard != 0 && l.partial.Load() && p.memory.protect(e.mem(), false) != nil {
		p.faults.Add(1)
		return nil // its rows cannot be looked at
	}
	if p.o.Debug&Poison != 0 {
		l.eachGap(func(gap []byte) {
			if at := differs(gap, canaryByte); at >= 0 && err == nil {
				err = l.overrun(op, gap[at:])
			}
		})
		if l.partial.Load() {
			err = l.checkReleased(op, err)
		}
		fill(e.mem(), PoisonByte)
		e.sampled = 0
	}
	if p.o.Debug&Stacks != 0 {
		p.mu.Lock()
		if e.record != nil {
			e.record.ended = callers(2)
		}
		p.mu.Unlock()
	}
	return err
}

// inspectRows does the same for rows that were released one by one.
func (l *Lease) inspectRows(op string, idx []int) error {
	p, s, mem := l.pool(), l.shape, l.e.mem()
	var err error
	for _, i := range idx {
		row := mem[i*s.stride : i*s.stride+s.rowSize]
		if p.o.Debug&Poison != 0 {
			gap := mem[i*s.stride+s.rowSize : (i+1)*s.stride]
			if at := differs(gap, canaryByte); at >= 0 && err == nil {
				err = l.overrun(op, gap[at:])
			}
			fill(row, PoisonByte)
		}
		inPages := s.rowSize%pageSize == 0 && (i*s.stride)%pageSize == 0
		if p.o.Debug&Guard != 0 && inPages && p.memory.protect(row, true) != nil {
			p.faults.Add(1)
		}
	}
	return err
}

// checkReleased looks whether rows that were released early were written to since.
func (l *Lease) checkReleased(op string, err error) error {
	s, mem := l.shape, l.e.mem()
	for i := 0; i < s.rows; i++ {
		if s.released[i>>6]&(1<<(i&63)) == 0 {
			continue
		}
		row := mem[i*s.stride : i*s.stride+s.rowSize]
		if at := differs(row, PoisonByte); at >= 0 && err == nil {
			err = l.corrupt(op, i, fmt.Sprintf("byte %d of row %d was written after the row was "+
				"released", at, i))
		}
	}
	return err
}

func (l *Lease) overrun(op string, at []byte) error {
	offset := int(addressOfByte(&at[0]) - l.e.arena.base() - uintptr(l.e.offset))
	row := offset / l.shape.stride
	return l.corrupt(op, row, fmt.Sprintf("row %d was written past its end, at byte %d of %d", row,
		offset-row*l.shape.stride, l.shape.rowSize))
}

func (l *Lease) corrupt(op string, row int, detail string) error {
	p := l.pool()
	return &Error{Kind: ErrCorrupt, Op: op, Pool: p.o.Name, Row: row,
		Rows: l.shape.rows, RowSize: l.shape.rowSize, Detail: detail + p.history(l.e)}
}

// reported reports what inspect found, if anything, once nothing is locked.
func (p *Pool) reported(err error) error {
	if err == nil {
		return nil
	}
	return p.misuse(err)
}

func addressOfByte(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

// differs finds the first byte that is not value; -1 if there is none.
func differs(b []byte, value byte) int {
	for i := range b {
		if b[i] != value {
			return i
		}
	}
	return -1
}

// verify checks the poison of a free extent that is about to be cut. It is reported once mu, which
// the caller holds, is free again: who is told may panic.
func (p *Pool) verify(e *extent) {
	if p.o.Debug&Poison == 0 || p.o.Sparse || e.bin == nil {
		return
	}
	if at := differs(e.mem()[:e.dirty], PoisonByte); at >= 0 {
		p.found = p.poisonError(e, at, p.historyLocked(e))
	}
}

// checkPoison reports writes after release: those that verify found, and those to the extent that
// is lent again as a whole. The Get that found them is not to blame and goes on; with
// Options.Panic it panics.
func (p *Pool) checkPoison(e *extent) {
	p.mu.Lock()
	err := p.found
	p.found = nil
	p.mu.Unlock()
	if err == nil && e.issue > 1 {
		if at := differs(e.mem()[:e.dirty], PoisonByte); at >= 0 {
			err = p.poisonError(e, at, p.history(e))
		}
	}
	if err == nil {
		return
	}
	if p.o.OnMisuse == nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = p.misuse(err)
}

func (p *Pool) poisonError(e *extent, at int, history string) error {
	return &Error{Kind: ErrCorrupt, Op: "Get", Pool: p.o.Name, Row: -1, Bytes: int64(e.length),
		Detail: fmt.Sprintf("byte %d of released memory was written to after its release", at) +
			history}
}
