package slab

import (
	"slices"
	"sort"
	"time"
	"unsafe"
)

// An arena is one reservation of addresses. Its bytes up to the frontier are committed and cut
// into extents, without gaps and in order; those beyond are addresses only.
type arena struct {
	pool     *Pool
	whole    []byte // as reserved
	mem      []byte // from the first granule on
	frontier int
	first    *extent
	tail     *extent
	extents  int
}

// base is the address of the first byte.
func (a *arena) base() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(a.mem))) }

// States of an extent.
const (
	free uint8 = iota
	used
	quarantined
)

// An extent is a stretch of an arena: lent as a whole, or free. Arena, offset and length never
// change; an extent that is cut or joined is replaced. All else is guarded by the pool's mu.
type extent struct {
	arena          *arena
	offset, length int

	prev, next       *extent // neighbours in the arena
	binPrev, binNext *extent // in the bin, while free and filed

	bin   *bin // of its length, once it was lent
	filed bool // is in the bin now
	state uint8
	// dirty: of a free extent, how many of its bytes are resident. In a regular pool these are
	// its first ones, the rest reads as zero; in a sparse pool they lie anywhere.
	dirty int
	// account: of a lent extent, what it adds to in-use.
	account int
	issue   uint32        // counts its leases
	born    time.Duration // when it was lent, by the pool's clock
	sampled time.Duration // sparse: when dirty was last measured
	shape   *shape        // of its last lease, with its row views
	record  *record       // debug modes
}

func (e *extent) mem() []byte {
	return e.arena.mem[e.offset : e.offset+e.length : e.offset+e.length]
}

// A shape is how a lease divides its extent, with what is worth keeping for the next lease of the
// same shape. It is guarded by the lease that has it.
type shape struct {
	rows, rowSize, stride int
	views                 viewSet  // built when first asked for
	released              []uint64 // one bit for each row, valid once a row was released
}

// A viewSet is the row headers of a shape. It outlives the extent that it was made for: mixed sizes
// cut extents anew at every miss, and 0.3 to 0.8 MB of headers left to the collector each time let
// the heap double before it came.
type viewSet struct {
	rows  [][]byte
	issue uint32 // counts what a WorkAllocator made of them
}

// viewsSlack: views that no extent has are kept up to this many more than leases.
const viewsSlack = 16

// keepViews takes a shape's views for the next that asks, the longest kept giving way. The caller
// holds mu; nobody has a lease on the shape.
func (p *Pool) keepViews(s *shape) {
	if s == nil || s.views.rows == nil {
		return
	}
	if len(p.kept) >= viewsSlack+p.live {
		p.kept = slices.Delete(p.kept, 0, 1)
	}
	p.kept = append(p.kept, s.views)
	s.views = viewSet{}
}

// takeViews gives n headers, kept ones if there are. Only that very number fits: a WorkAllocator
// tells leases apart by the capacity.
func (p *Pool) takeViews(n int) viewSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.kept) - 1; i >= 0; i-- {
		if v := p.kept[i]; cap(v.rows) == n {
			p.kept = slices.Delete(p.kept, i, i+1)
			return v
		}
	}
	return viewSet{rows: make([][]byte, n)}
}

// A bin lists the free extents of one length: in front those that a Get may take as they are.
type bin struct {
	length  int
	extents int // lent ones included
	head    *extent
	foot    *extent
}

func (b *bin) push(e *extent, front bool) {
	e.filed = true
	if !front {
		e.binPrev, e.binNext = b.foot, nil
		if b.foot != nil {
			b.foot.binNext = e
		} else {
			b.head = e
		}
		b.foot = e
		return
	}
	e.binPrev, e.binNext = nil, b.head
	if b.head != nil {
		b.head.binPrev = e
	} else {
		b.foot = e
	}
	b.head = e
}

func (b *bin) remove(e *extent) {
	e.filed = false
	if e.binPrev != nil {
		e.binPrev.binNext = e.binNext
	} else {
		b.head = e.binNext
	}
	if e.binNext != nil {
		e.binNext.binPrev = e.binPrev
	} else {
		b.foot = e.binPrev
	}
	e.binPrev, e.binNext = nil, nil
}

// eachLent visits the lent extents, by address. The caller holds mu.
func (p *Pool) eachLent(visit func(*extent)) {
	for _, a := range p.arenas {
		for e := a.first; e != nil; e = e.next {
			if e.state == used {
				visit(e)
			}
		}
	}
}

// link puts e behind prev, or first.
func (a *arena) link(e, prev *extent) {
	e.arena, e.prev = a, prev
	a.extents++
	if prev == nil {
		e.next, a.first = a.first, e
	} else {
		e.next, prev.next = prev.next, e
	}
	if e.next != nil {
		e.next.prev = e
	} else {
		a.tail = e
	}
}

func (a *arena) unlink(e *extent) {
	a.extents--
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		a.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		a.tail = e.prev
	}
	e.prev, e.next = nil, nil
}

// forget takes a free extent out of its bin for good, because it is about to be replaced.
func (p *Pool) forget(e *extent) {
	p.keepViews(e.shape)
	if e.filed {
		e.bin.remove(e)
	}
	if e.bin != nil {
		e.bin.extents--
		e.bin = nil
	}
}

// addArena keeps the arenas in the order of their addresses.
func (p *Pool) addArena(a *arena) {
	at := sort.Search(len(p.arenas), func(i int) bool { return p.arenas[i].base() > a.base() })
	p.arenas = append(p.arenas, nil)
	copy(p.arenas[at+1:], p.arenas[at:])
	p.arenas[at] = a
}

func (p *Pool) removeArena(a *arena) {
	for i := range p.arenas {
		if p.arenas[i] == a {
			p.arenas = append(p.arenas[:i], p.arenas[i+1:]...)
			return
		}
	}
}

// extentAt finds the extent that holds an address; nil if it lies outside the pool. It walks the
// arena: for messages, not for the hot path. The caller holds mu.
func (p *Pool) extentAt(address uintptr) *extent {
	for _, a := range p.arenas {
		if address < a.base() || address-a.base() >= uintptr(a.frontier) {
			continue
		}
		offset := int(address - a.base())
		for e := a.first; e != nil; e = e.next {
			if offset < e.offset+e.length {
				return e
			}
		}
	}
	return nil
}
