package rows

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/highwater-rs/highwater/slab"
)

// An Assembly is the rows of one blob. It is safe for concurrent use: readers may ask for rows while
// others release theirs.
type Assembly struct {
	asm     *Assembler
	lease   *slab.Lease
	rowSize int
	last    int    // the original row that is copied into the second pooled row; -1 if none
	data    []byte // kept alive for the rows that alias it

	released []atomic.Uint32 // one bit for each row
	mu       sync.Mutex      // for Rows, Free and Close
	count    int             // rows released
	closed   bool
	view     [][]byte // nil once closed
	pooled   []int    // of Free, kept for the next
}

// Size gives the number of rows and the bytes of each.
func (x *Assembly) Size() (original, parity, rowSize int) {
	return x.asm.o.Original, x.asm.o.Parity, x.rowSize
}

// Rows gives all rows, originals first, for the codec; nil once a row was released: what is
// consumed is not encoded again. The slice is valid until Close.
func (x *Assembly) Rows() [][]byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count > 0 || x.closed {
		return nil
	}
	return x.view
}

// Row gives one row, or says that it was released or does not exist.
func (x *Assembly) Row(i int) ([]byte, error) {
	if err := x.check("Row", i); err != nil {
		return nil, err
	}
	if x.isReleased(i) {
		return nil, x.fail("Row", slab.ErrReleased, i)
	}
	k := x.asm.o.Original
	var row []byte
	switch {
	case i >= k:
		row = x.lease.Row(i - k + partialRows)
	case i == 0:
		row = x.lease.Row(0)
	case i == x.last:
		row = x.lease.Row(1)
	default:
		row = x.alias(i)
	}
	if row == nil { // released meanwhile
		return nil, x.fail("Row", slab.ErrReleased, i)
	}
	return row, nil
}

// alias is an original row that is not pooled.
func (x *Assembly) alias(i int) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.view == nil {
		return nil
	}
	return x.view[i]
}

// Released tells whether row i was released; an index out of range counts as such.
func (x *Assembly) Released(i int) bool {
	return x.check("Released", i) != nil || x.isReleased(i)
}

func (x *Assembly) isReleased(i int) bool {
	return x.released[i/32].Load()&(1<<(i%32)) != 0
}

// Free releases these rows, in any order: all of them, or none and the error tells which index was
// wrong or released before. The memory goes back when the last row is released. Free(nil) is
// Close.
func (x *Assembly) Free(idx []int) error {
	if idx == nil {
		return x.Close()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return x.fail("Free", slab.ErrReleased, -1)
	}
	for n, i := range idx {
		err := x.check("Free", i)
		if err == nil && x.isReleased(i) {
			err = x.fail("Free", slab.ErrReleased, i)
		}
		if err != nil {
			x.mark(idx[:n], false)
			return err
		}
		x.mark(idx[n:n+1], true)
	}
	x.count += len(idx)
	return x.freePooled(idx)
}

func (x *Assembly) mark(idx []int, released bool) {
	for _, i := range idx {
		if released {
			x.released[i/32].Or(1 << (i % 32))
		} else {
			x.released[i/32].And(^uint32(1 << (i % 32)))
		}
	}
}

// freePooled releases the leased rows among these, and the second pooled row, which nobody may
// have, with the last of all. The caller holds mu.
func (x *Assembly) freePooled(idx []int) error {
	k := x.asm.o.Original
	pooled := x.pooled[:0]
	for _, i := range idx {
		switch {
		case i >= k:
			pooled = append(pooled, i-k+partialRows)
		case i == 0:
			pooled = append(pooled, 0)
		case i == x.last:
			pooled = append(pooled, 1)
		}
	}
	if x.count == x.asm.o.Original+x.asm.o.Parity {
		return x.finish()
	}
	x.pooled = pooled
	if len(pooled) == 0 {
		return nil
	}
	return x.lease.Free(pooled)
}

// Close releases whatever is left. After Free has released every row, one Close is still good;
// any further one returns [slab.ErrReleased].
func (x *Assembly) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return slab.ErrReleased
	}
	x.closed = true
	if x.view == nil { // Free has released every row
		return nil
	}
	return x.finish()
}

// finish gives the memory back and keeps the view for the next assembly. The caller holds mu.
func (x *Assembly) finish() error {
	for i := range x.released {
		x.released[i].Store(^uint32(0))
	}
	view := x.view
	x.view, x.data = nil, nil
	clear(view) // it must not keep the data alive
	x.asm.free.Put(&view)
	return x.lease.Close()
}

func (x *Assembly) check(op string, i int) error {
	if i < 0 || i >= x.asm.o.Original+x.asm.o.Parity {
		return x.fail(op, slab.ErrRow, i)
	}
	return nil
}

func (x *Assembly) fail(op string, kind error, i int) error {
	return fmt.Errorf("rows: %s of row %d of %d+%d rows of %d bytes: %w", op, i, x.asm.o.Original,
		x.asm.o.Parity, x.rowSize, kind)
}
