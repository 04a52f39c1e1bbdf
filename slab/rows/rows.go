// Package rows assembles the rows of an erasure-coded blob: originals over the caller's data, parity
// rows from a pool, and the codec's scratch from another.
//
// Full rows in the middle of the data are not copied. The first row, which keeps room for a header,
// and the last one, which the data rarely fills, are copied into pooled rows; rows behind the data
// share one row of zeros. Receivers release the rows they have sent, in any order; the memory goes
// back when the last pooled row is released, or with Close.
//
//	a, err := rows.NewAssembler(rows.Options{Original: 4096, Parity: 12288})
//	enc, err := reedsolomon.New(4096, 12288, reedsolomon.WithWorkAllocator(a.Work()))
//	x, err := a.Assemble(data, rows.Size(len(data), 0, 4096), 0)
//	err = enc.Encode(x.Rows())
//	... x.Free(rowsOfThatReceiver) ...
//	err = x.Close()
package rows

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/highwater-rs/highwater/slab"
)

// Unit is what a row size must be a multiple of: the codec works on 64 bytes at a time.
const Unit = 64

// partialRows: the first row and the last one that holds data are copied.
const partialRows = 2

// ErrData: the data does not fit into the rows, or the row size is none.
var ErrData = errors.New("rows: data does not fit")

// Options of an assembler.
type Options struct {
	Original, Parity int // numbers of rows
	// Pool lends the parity rows, and the two that are copied. One is made if it is nil.
	Pool *slab.Pool
	// Scratch lends the codec's work rows; it should be sparse. One is made if it is nil. Pool and
	// Scratch must not be the same: parity would inherit scratch's dirty pages.
	Scratch *slab.Pool
}

// Assembler makes assemblies of one geometry. It is safe for concurrent use.
type Assembler struct {
	o    Options
	own  []*slab.Pool
	work *slab.WorkAllocator
	zero atomic.Pointer[[]byte]
	free sync.Pool // of row views: [][]byte of Original+Parity
}

// Size is the smallest row size with which data of that length, behind offset bytes of header,
// fits into original rows.
func Size(length, offset, original int) int {
	if original <= 0 || length < 0 || offset < 0 {
		return 0
	}
	each := (length + offset + original - 1) / original
	return max((each+Unit-1)/Unit*Unit, Unit)
}

// NewAssembler checks the options and makes the pools that they lack.
func NewAssembler(o Options) (*Assembler, error) {
	if o.Original <= 0 || o.Parity <= 0 {
		return nil, fmt.Errorf("%w: %d original and %d parity rows: both must be positive",
			slab.ErrOptions, o.Original, o.Parity)
	}
	if o.Pool != nil && o.Pool == o.Scratch {
		return nil, fmt.Errorf("%w: pool %q is given for parity and for scratch",
			slab.ErrOptions, o.Pool.Name())
	}
	a := &Assembler{o: o}
	for _, want := range []struct {
		pool **slab.Pool
		o    slab.Options
	}{
		{&a.o.Pool, slab.Options{Name: "parity"}},
		{&a.o.Scratch, slab.Options{Name: "scratch", Sparse: true}},
	} {
		if *want.pool != nil {
			continue
		}
		p, err := slab.New(want.o)
		if err != nil {
			return nil, err
		}
		*want.pool, a.own = p, append(a.own, p)
	}
	a.work = slab.Work(a.o.Scratch)
	return a, nil
}

// Work is the codec's allocator.
func (a *Assembler) Work() *slab.WorkAllocator { return a.work }

// Pools are the pool of parity rows and that of scratch.
func (a *Assembler) Pools() (parity, scratch *slab.Pool) { return a.o.Pool, a.o.Scratch }

// Close closes the pools that NewAssembler made.
func (a *Assembler) Close() error {
	var errs []error
	for _, p := range a.own {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Assemble builds the rows for data. The first offset bytes of row 0 are left for a header and are
// zero. Until it is closed the caller must not write to data, nor to original rows other than the
// header: rows alias data and share zeros. Parity rows hold anything; the codec overwrites them.
func (a *Assembler) Assemble(data []byte, rowSize, offset int) (*Assembly, error) {
	if err := a.check(len(data), rowSize, offset); err != nil {
		return nil, err
	}
	lease, err := a.o.Pool.Get(partialRows+a.o.Parity, rowSize)
	if err != nil {
		return nil, err
	}
	x := &Assembly{asm: a, lease: lease, rowSize: rowSize, last: -1, data: data}
	view := a.view()
	x.fill(view, data, offset)
	x.view = view
	x.released = make([]atomic.Uint32, (len(view)+31)/32)
	return x, nil
}

func (a *Assembler) check(length, rowSize, offset int) error {
	switch {
	case rowSize <= 0 || rowSize%Unit != 0:
		return fmt.Errorf("%w: row size %d is no positive multiple of %d", ErrData, rowSize, Unit)
	case offset < 0 || offset > rowSize:
		return fmt.Errorf("%w: an offset of %d in a row of %d bytes", ErrData, offset, rowSize)
	case length > a.o.Original*rowSize-offset || rowSize > int(^uint(0)>>1)/a.o.Original:
		return fmt.Errorf("%w: %d bytes behind an offset of %d, in %d rows of %d bytes", ErrData,
			length, offset, a.o.Original, rowSize)
	}
	return nil
}

func (a *Assembler) view() [][]byte {
	if view, ok := a.free.Get().(*[][]byte); ok {
		return *view
	}
	return make([][]byte, a.o.Original+a.o.Parity)
}

// zeros is one row that all empty rows share; nobody may write to it.
func (a *Assembler) zeros(size int) []byte {
	for {
		have := a.zero.Load()
		if have != nil && len(*have) >= size {
			return (*have)[:size:size]
		}
		more := make([]byte, size)
		if a.zero.CompareAndSwap(have, &more) {
			return more[:size:size]
		}
	}
}

// fill lays out the rows. Parity keeps the lease's rows from partialRows on.
func (x *Assembly) fill(view [][]byte, data []byte, offset int) {
	pooled, k := x.lease.Rows(), x.asm.o.Original
	copy(view[k:], pooled[partialRows:])
	view[0] = pooled[0]
	clear(view[0])
	n := copy(view[0][offset:], data)
	i := 1
	for ; i < k && n+x.rowSize <= len(data); i++ {
		view[i] = data[n : n+x.rowSize : n+x.rowSize]
		n += x.rowSize
	}
	if i < k && n < len(data) {
		x.last = i
		view[i] = pooled[1]
		clear(view[i][copy(view[i], data[n:]):])
		i++
	}
	for ; i < k; i++ {
		view[i] = x.asm.zeros(x.rowSize)
	}
}
