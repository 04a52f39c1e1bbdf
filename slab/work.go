package slab

import (
	"context"
	"sync"
	"unsafe"
)

const (
	// issueSpan: the capacity of what Get returns tells so many uses of the same views apart.
	issueSpan = 256
	// workSlices that were put back are remembered up to this many more than are lent.
	workSlices = 256
)

// WorkAllocator lends rows as plain slices. It has the methods of reedsolomon.WorkAllocator (of
// github.com/klauspost/reedsolomon) without importing it; the interface has no errors, so they are
// counted in [Stats.Misuses], handed to [Options.OnMisuse], and kept for Err.
type WorkAllocator struct {
	pool *Pool

	mu   sync.Mutex
	lent map[uintptr]work // by the address of the first row header, which it does not keep alive
	err  error
}

// work is what became of a slice: its lease (nil once put back) and its capacity.
type work struct {
	lease    *Lease
	capacity int
}

// Work makes an allocator for codec scratch on a pool: a sparse one, unless the codec touches all
// that it asks for.
func Work(p *Pool) *WorkAllocator {
	return &WorkAllocator{pool: p, lent: map[uintptr]work{}}
}

// Get lends n rows of size bytes, waiting under the cap. It returns nil where the pool cannot
// give them (no memory, more than the cap, closed), and Err says why; the codec then reports that
// it got too few rows.
func (w *WorkAllocator) Get(n, size int) [][]byte {
	l, err := w.pool.get(context.Background(), "WorkAllocator.Get", n, size)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
		return nil
	}
	l.mu.Lock()
	rows := l.views(issueSpan)
	l.shape.views.issue++
	rows = rows[: n : n+int(l.shape.views.issue%issueSpan)]
	l.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lent[headerAddress(rows)] = work{l, cap(rows)}
	if len(w.lent) > workSlices+2*w.pool.leases() {
		w.prune()
	}
	return rows
}

func headerAddress(rows [][]byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(rows))) }

// prune forgets slices that were put back.
func (w *WorkAllocator) prune() {
	for key, s := range w.lent {
		if s.lease == nil {
			delete(w.lent, key)
		}
	}
}

// Put takes back what Get returned, that very slice: its rows may have been sliced anew. Anything
// else is refused, see [WorkAllocator]; an empty slice is ignored.
func (w *WorkAllocator) Put(rows [][]byte) {
	if len(rows) == 0 {
		return
	}
	if err := w.put(rows); err != nil {
		err = &Error{Kind: err, Op: "WorkAllocator.Put", Pool: w.pool.o.Name, Rows: len(rows),
			RowSize: len(rows[0]), Row: -1}
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
		_ = w.pool.misuse(err)
	}
}

func (w *WorkAllocator) put(rows [][]byte) error {
	key := headerAddress(rows)
	w.mu.Lock()
	s, known := w.lent[key]
	if !known {
		w.mu.Unlock()
		return w.pool.whoseRows(rows)
	}
	if s.lease == nil || s.capacity != cap(rows) {
		w.mu.Unlock()
		return ErrReleased
	}
	w.lent[key] = work{nil, s.capacity}
	w.mu.Unlock()
	return s.lease.Close()
}

// Err is the newest failure of Get or refusal of Put; nil without any.
func (w *WorkAllocator) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// leases counts the live ones.
func (p *Pool) leases() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}

// whoseRows says what is wrong with rows that are no slice of this allocator's. Only addresses are
// compared.
func (p *Pool) whoseRows(rows [][]byte) error {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(rows[0])))
	p.mu.Lock()
	e := p.extentAt(address)
	inner := e != nil && address != e.arena.base()+uintptr(e.offset)
	p.mu.Unlock()
	switch {
	case inner:
		return ErrInnerRow
	case e != nil && e.state == free:
		return ErrReleased
	case e != nil:
		return ErrForeign // the memory is ours, the slice is not the one that Get returned
	}
	return p.whose(address, cap(rows[0]))
}
