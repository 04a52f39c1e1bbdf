package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sort"
	"sync"

	"github.com/highwater-rs/highwater/slab"
	"github.com/highwater-rs/highwater/slab/rows"
	"github.com/klauspost/reedsolomon"
)

// An arm is where the buffers come from.
type arm interface {
	// read takes size bytes from r into a buffer for one upload.
	read(r io.Reader, size int) (blob, error)
	// assemble gives the rows of an upload.
	assemble(data []byte, rowSize int) (assembly, error)
	// work is the codec's scratch; nil is the codec's own sync.Pool.
	work() reedsolomon.WorkAllocator
	pools() []*slab.Pool
	close() error
}

// blob is the input of one upload.
type blob struct {
	data []byte
	done func() error
}

// assembly is the rows of one upload.
type assembly interface {
	Rows() [][]byte
	Free(idx []int) error
	Close() error
}

// arms by name. The benchmark adds the pools of others.
var arms = map[string]func(options) (arm, error){
	"make":     func(o options) (arm, error) { return &heapArm{o: o}, nil },
	"syncpool": func(o options) (arm, error) { return &heapArm{o: o, parity: &sync.Pool{}}, nil },
	"shared":   newSharedArm,
	"split":    newSplitArm,
}

func armNames() (names []string) {
	for name := range arms {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// readFresh is what a server does that knows nothing of pools.
func readFresh(r io.Reader, size int) (blob, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(r, data)
	return blob{data, func() error { return nil }}, err
}

// heapArm makes everything anew, or keeps parity in a sync.Pool as the codec keeps its scratch.
type heapArm struct {
	o      options
	parity *sync.Pool
}

func (a *heapArm) read(r io.Reader, size int) (blob, error) { return readFresh(r, size) }
func (a *heapArm) pools() []*slab.Pool                      { return nil }
func (a *heapArm) close() error                             { return nil }

func (a *heapArm) work() reedsolomon.WorkAllocator {
	if a.parity != nil {
		return nil
	}
	return freshWork{}
}

type freshWork struct{}

func (freshWork) Get(n, size int) [][]byte { return reedsolomon.AllocAligned(n, size) }
func (freshWork) Put([][]byte)             {}

func (a *heapArm) assemble(data []byte, rowSize int) (assembly, error) {
	var parity [][]byte
	if a.parity != nil {
		if kept, ok := a.parity.Get().(*[][]byte); ok {
			parity = *kept
		}
	}
	if len(parity) == 0 || cap(parity[0]) < rowSize {
		parity = reedsolomon.AllocAligned(a.o.parity, rowSize)
	}
	all := originals(data, rowSize, a.o.original)
	for _, row := range parity {
		all = append(all, row[:rowSize])
	}
	return &heapRows{a.parity, parity, all}, nil
}

// originals are views of the data; the last one and the empty ones are made.
func originals(data []byte, rowSize, count int) [][]byte {
	all := make([][]byte, 0, 4*count)
	for ; len(all) < count && len(data) >= rowSize; data = data[rowSize:] {
		all = append(all, data[:rowSize:rowSize])
	}
	for len(all) < count {
		row := make([]byte, rowSize)
		data = data[copy(row, data):]
		all = append(all, row)
	}
	return all
}

type heapRows struct {
	pool   *sync.Pool
	parity [][]byte
	all    [][]byte
}

func (r *heapRows) Rows() [][]byte       { return r.all }
func (r *heapRows) Free(idx []int) error { return nil }

func (r *heapRows) Close() error {
	if r.pool != nil {
		r.pool.Put(&r.parity)
	}
	return nil
}

// slabArm is the pools of this project.
type slabArm struct {
	rows    *rows.Assembler
	input   *slab.Pool
	scratch *slab.Pool
	all     []*slab.Pool
}

// newSplitArm: parity and input from one pool, scratch from a sparse one.
func newSplitArm(o options) (arm, error) {
	huge := slab.SystemDefault
	if o.huge {
		huge = slab.Advise
	}
	// Two collections: the first moves what sync.Pools hold to where the second finds it. Whichever
	// pool is idle last, its row headers go too.
	idle := func() {
		runtime.GC()
		debug.FreeOSMemory()
	}
	parity, err := slab.New(slab.Options{Name: "parity", Window: o.window, HugePages: huge, OnIdle: idle})
	if err != nil {
		return nil, err
	}
	scratch, err := slab.New(slab.Options{Name: "scratch", Sparse: true, Window: o.window, OnIdle: idle})
	if err != nil {
		return nil, err
	}
	return newSlabArm(o, parity, scratch)
}

// newSharedArm: one pool for all, which the history rejected: scratch is asked for in full.
func newSharedArm(o options) (arm, error) {
	shared, err := slab.New(slab.Options{Name: "shared", Window: o.window})
	if err != nil {
		return nil, err
	}
	return newSlabArm(o, shared, shared)
}

func newSlabArm(o options, parity, scratch *slab.Pool) (arm, error) {
	ro := rows.Options{Original: o.original, Parity: o.parity, Pool: parity}
	all := []*slab.Pool{parity}
	if scratch != parity {
		ro.Scratch = scratch
		all = append(all, scratch)
	}
	assembler, err := rows.NewAssembler(ro)
	if err != nil {
		return nil, err
	}
	return &slabArm{assembler, parity, scratch, all}, nil
}

func (a *slabArm) read(r io.Reader, size int) (blob, error) {
	l, err := a.input.ReadFrom(io.LimitReader(r, int64(size)), size)
	if err != nil {
		return blob{}, err
	}
	return blob{l.Bytes(), l.Close}, nil
}

func (a *slabArm) assemble(data []byte, rowSize int) (assembly, error) {
	x, err := a.rows.Assemble(data, rowSize, 0)
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (a *slabArm) work() reedsolomon.WorkAllocator { return slab.Work(a.scratch) }
func (a *slabArm) pools() []*slab.Pool             { return a.all }

func (a *slabArm) close() error {
	err := a.rows.Close()
	for _, p := range a.all {
		if e := p.Close(); e != nil && err == nil {
			err = e
		}
	}
	return err
}

func newArm(o options) (arm, error) {
	make, known := arms[o.arm]
	if !known {
		return nil, fmt.Errorf("-arm %q is none of %v", o.arm, armNames())
	}
	return make(o)
}
