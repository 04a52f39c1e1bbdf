package slab

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// rowAlign is what SIMD kernels want: a cache line.
const rowAlign = 64

// States of a lease.
const (
	live    uint32 = iota
	busy           // live, and a method that holds mu works on it
	drained        // every row was released by Free; Close is still owed
	closed
)

// A Lease is rows of bytes until it is closed. Its methods may be called from many goroutines; the
// rows are plain memory. A lease is used once: after Close every method says [ErrReleased] or
// returns nil for ever, whoever has the memory by then.
type Lease struct {
	e       *extent
	shape   *shape
	mu      sync.Mutex // held by whoever makes state busy
	state   atomic.Uint32
	partial atomic.Bool // rows were released: shape.released is valid
	exposed bool        // Rows was called
	left    int32       // rows not released, valid when partial
}

func (l *Lease) pool() *Pool { return l.e.arena.pool }

func (l *Lease) isLive() bool { return l.state.Load() <= busy }

// hold keeps Close and others away until letGo; false if the lease has ended.
func (l *Lease) hold() bool {
	l.mu.Lock()
	if l.state.CompareAndSwap(live, busy) {
		return true
	}
	l.mu.Unlock()
	return false
}

func (l *Lease) letGo(next uint32) {
	l.state.Store(next)
	l.mu.Unlock()
}

// Size gives the number of rows and the bytes of each.
func (l *Lease) Size() (rows, rowSize int) { return l.shape.rows, l.shape.rowSize }

// Stride is the distance from row to row in Bytes: the row size rounded up to 64, and with Poison
// 64 more for a canary.
func (l *Lease) Stride() int { return l.shape.stride }

// Err is nil while the lease is live and [ErrReleased] from then on.
func (l *Lease) Err() error {
	if !l.isLive() {
		return ErrReleased
	}
	return nil
}

// Rows gives all rows, each with its length as capacity; nil once released. The headers are
// cached from lease to lease. They are restored at the first call, so a caller (or a codec) may
// slice them anew; that call costs about a nanosecond a row. [Lease.Row] and [Lease.Bytes] do not
// need them.
func (l *Lease) Rows() [][]byte {
	if !l.hold() {
		return nil
	}
	defer l.letGo(live)
	n := l.shape.rows
	return l.views(0)[:n:n]
}

// views restores the row headers once per lease. It makes room for spare more of them, which are
// never filled: the capacity of what is handed out can so tell one lease from the next.
func (l *Lease) views(spare int) [][]byte {
	s := l.shape
	if cap(s.views.rows) < s.rows+spare {
		s.views = l.pool().takeViews(s.rows + spare)
		l.exposed = false
	}
	if !l.exposed {
		s.restore(l.e.mem())
		l.exposed = true
	}
	return s.views.rows
}

func (s *shape) restore(mem []byte) {
	views, size, stride := s.views.rows[:s.rows], s.rowSize, s.stride
	offset := 0
	for i := range views {
		views[i] = mem[offset : offset+size : offset+size]
		offset += stride
	}
}

// Row gives row i; nil if it was released or does not exist.
func (l *Lease) Row(i int) []byte {
	s := l.shape
	if uint(i) >= uint(s.rows) || !l.isLive() {
		return nil
	}
	if l.partial.Load() && l.isReleased(i) {
		return nil
	}
	offset := l.e.offset + i*s.stride
	return l.e.arena.mem[offset : offset+s.rowSize : offset+s.rowSize]
}

func (l *Lease) isReleased(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.isLive() || l.shape.released[i>>6]&(1<<(i&63)) != 0
}

// Bytes gives the whole region, from the first row to the end of the last; nil once released.
// Rows lie [Lease.Stride] apart: where that is more than the row size there are gaps, which are
// nobody's to write.
func (l *Lease) Bytes() []byte {
	if !l.isLive() {
		return nil
	}
	n := (l.shape.rows-1)*l.shape.stride + l.shape.rowSize
	return l.e.mem()[:n:n]
}

// Close ends the lease: its memory goes back to the pool. A second call returns [ErrReleased].
// After Free has released every row, one Close is still good.
func (l *Lease) Close() error {
	p := l.pool()
	if p.o.Debug == 0 && l.state.CompareAndSwap(live, closed) {
		p.put(l.e)
		return nil
	}
	return l.closeSlowly(p)
}

// closeSlowly waits for a method that holds the lease, and runs the debug modes' checks.
func (l *Lease) closeSlowly(p *Pool) error {
	l.mu.Lock()
	switch l.state.Load() {
	case drained:
		l.letGo(closed)
		return nil
	case closed:
		l.mu.Unlock()
		return l.misuse("Close", ErrReleased, -1)
	}
	var err error
	if p.o.Debug != 0 {
		err = l.inspect("Close")
	}
	l.letGo(closed)
	p.put(l.e)
	return p.reported(err)
}

// Free releases the rows with these indexes, in any order, from any goroutine: the caller will
// not touch them any more. The memory goes back when the last row is released. All indexes are
// released, or none and the error tells which was wrong: out of range ([ErrRow]), or released
// before ([ErrReleased]), also by this very call.
//
// Free(nil) is Close. An empty slice that is not nil releases nothing.
func (l *Lease) Free(idx []int) error {
	if idx == nil {
		return l.Close()
	}
	if !l.hold() {
		return l.misuse("Free", ErrReleased, -1)
	}
	l.begin()
	for n, i := range idx {
		if err := l.shape.mark(i); err != nil {
			l.shape.unmark(idx[:n])
			l.letGo(live)
			return l.misuse("Free", err, i)
		}
	}
	return l.finish("Free", idx, len(idx))
}

// FreeRow is Free for one row.
func (l *Lease) FreeRow(i int) error { return l.Free([]int{i}) }

// FreeRows is Free for rows as slices. Each must begin where a row of this lease begins; its
// length does not matter. Others are refused with [ErrForeign], [ErrInnerRow] or [ErrWrongPool].
func (l *Lease) FreeRows(rows [][]byte) error {
	if !l.hold() {
		return l.misuse("FreeRows", ErrReleased, -1)
	}
	l.begin()
	base, end := l.region()
	for n, row := range rows {
		i, err := l.index(row, base, end)
		if err == nil {
			err = l.shape.mark(i)
		}
		if err != nil {
			l.shape.unmark(l.indexes(rows[:n]))
			l.letGo(live)
			return l.misuse("FreeRows", err, i)
		}
	}
	if l.pool().o.Debug != 0 {
		return l.finish("FreeRows", l.indexes(rows), len(rows))
	}
	return l.finish("FreeRows", nil, len(rows))
}

// indexes is index for rows that are known to be good.
func (l *Lease) indexes(rows [][]byte) []int {
	base, end := l.region()
	idx := make([]int, len(rows))
	for n, row := range rows {
		idx[n], _ = l.index(row, base, end)
	}
	return idx
}

// region gives the addresses of the first row and of the end of the last.
func (l *Lease) region() (base, end uintptr) {
	base = l.e.arena.base() + uintptr(l.e.offset)
	return base, base + uintptr(l.shape.rows*l.shape.stride)
}

// index tells which row begins where the slice does. Only addresses are compared: whatever the
// slice is, its memory is not read.
func (l *Lease) index(row []byte, base, end uintptr) (int, error) {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(row)))
	if address < base || address >= end {
		return -1, l.pool().whose(address, cap(row))
	}
	offset := int(address - base)
	i := offset / l.shape.stride
	if offset != i*l.shape.stride {
		return i, ErrInnerRow
	}
	return i, nil
}

// begin clears the bits of the last lease of this shape. The caller holds mu.
func (l *Lease) begin() {
	if l.partial.Load() {
		return
	}
	words := (l.shape.rows + 63) / 64
	if l.shape.released == nil {
		l.shape.released = make([]uint64, words)
	} else {
		clear(l.shape.released)
	}
	l.left = int32(l.shape.rows)
	l.partial.Store(true)
}

func (s *shape) mark(i int) error {
	if uint(i) >= uint(s.rows) {
		return ErrRow
	}
	word, bit := &s.released[i>>6], uint64(1)<<(i&63)
	if *word&bit != 0 {
		return ErrReleased
	}
	*word |= bit
	return nil
}

func (s *shape) unmark(idx []int) {
	for _, i := range idx {
		s.released[i>>6] &^= 1 << (i & 63)
	}
}

// finish lets go of mu, and of the memory if these were the last rows. The debug modes look at the
// rows by their indexes.
func (l *Lease) finish(op string, idx []int, count int) error {
	var err error
	p := l.pool()
	if p.o.Debug != 0 {
		err = l.inspectRows(op, idx)
	}
	l.left -= int32(count)
	if l.left > 0 {
		l.letGo(live)
		return p.reported(err)
	}
	if p.o.Debug != 0 && err == nil {
		err = l.inspect(op)
	}
	l.letGo(drained)
	p.put(l.e)
	return p.reported(err)
}

// misuse counts what must not happen, and returns it or panics. A second Close gives the bare
// ErrReleased, for nothing at all has happened; all else has the numbers.
func (l *Lease) misuse(op string, kind error, row int) error {
	p := l.pool()
	if op == "Close" && p.o.Debug&Stacks == 0 {
		return p.misuse(kind)
	}
	e := &Error{Kind: kind, Op: op, Pool: p.o.Name, Row: row,
		Rows: l.shape.rows, RowSize: l.shape.rowSize}
	if p.o.Debug&Stacks != 0 {
		e.Detail = p.history(l.e)
	}
	return p.misuse(e)
}

func (p *Pool) misuse(err error) error {
	p.misuses.Add(1)
	if p.o.OnMisuse != nil {
		p.o.OnMisuse(err)
	}
	if p.o.Panic {
		panic(err)
	}
	return err
}
