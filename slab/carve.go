package slab

import "context"

// Structural numbers of the cold path.
const (
	// commitQuantum is the least that the frontier moves at once: address space, not RAM.
	commitQuantum = 64 << 10
	// extentsSlack: so many extents more than leases may lie in a pool before neighbours are
	// joined. It bounds the search, which walks them.
	extentsSlack = 4096
)

// cold serves a Get that no warm extent fits: under the cap, it cuts the stretch that reuses the
// most dirty bytes, or grows by what is missing, and gives back whatever the budget then forbids.
// The caller holds mu; only waiting lets go of it.
func (p *Pool) cold(ctx context.Context, op string, length int) (*extent, error) {
	need := p.expect(length)
	if err := p.enter(ctx, op, need); err != nil {
		return nil, err
	}
	p.budget.advance(p.clock())
	e, reused, err := p.carve(length)
	p.budget.reserved -= need
	if err != nil {
		p.enforce()
		p.admit()
		return nil, err
	}
	p.count.misses++
	p.claim(e, reused)
	return e, nil
}

// claim accounts for a cut extent, and purges what the budget forbids before anyone can touch the
// new pages: resident bytes stay under the peak, not only the books.
func (p *Pool) claim(e *extent, reused int) {
	b := &p.budget
	grow := 0
	if !p.o.Sparse {
		grow = e.length - reused
	}
	e.account = reused + grow
	b.freeDirty -= int64(reused)
	// Also when nothing new is cut: the peak may have fallen since the clock was read last.
	peak := max(b.peak(), b.inUse+int64(e.account))
	p.purge(b.inUse + int64(e.account) + b.freeDirty - peak)
	p.count.grow += int64(grow)
	b.inUse += int64(e.account)
	b.note()
	if grow > 0 {
		p.changed()
	}
}

// carve finds or makes a stretch of that length and takes it out of the free. It says how many of
// its bytes were dirty.
func (p *Pool) carve(length int) (*extent, int, error) {
	if p.memory.whole() {
		return p.carveWhole(length)
	}
	if start := p.search(length); start != nil {
		e, reused := p.cut(start, length)
		return e, reused, nil
	}
	start, err := p.extend(length)
	if err != nil && p.reclaim() {
		start, err = p.extend(length)
	}
	if err != nil {
		return nil, 0, &Error{Kind: ErrNoMemory, Cause: err, Pool: p.o.Name, Row: -1,
			InUse: p.budget.inUse, Cap: p.o.Cap}
	}
	e, reused := p.cut(start, length)
	return e, reused, nil
}

// reclaim gives everything free back, for a second try.
func (p *Pool) reclaim() bool {
	before := p.mapped()
	p.purge(p.budget.freeDirty)
	p.retract()
	return p.mapped() < before
}

// search looks for the run of neighbouring free extents that holds length bytes with the most
// dirty ones among them; of equals the lowest. It returns the first extent of that stretch.
func (p *Pool) search(length int) *extent {
	var best *extent
	most := -1
	for _, a := range p.arenas {
		var head *extent
		sum, dirty := 0, 0
		for e := a.first; e != nil; e = e.next {
			if e.state != free {
				head, sum, dirty = nil, 0, 0
				continue
			}
			if head == nil {
				head = e
			}
			sum, dirty = sum+e.length, dirty+e.dirty
			for sum-head.length >= length {
				sum, dirty, head = sum-head.length, dirty-head.dirty, head.next
			}
			if sum < length {
				continue
			}
			overlap := dirty - e.dirty + min(e.dirty, e.length-(sum-length))
			if overlap > most {
				best, most = head, overlap
			}
			if most == length {
				return best
			}
		}
	}
	return best
}

// cut takes length bytes from start on out of the free extents, and files the rest of the last.
func (p *Pool) cut(start *extent, length int) (*extent, int) {
	if start.length == length {
		if start.filed {
			start.bin.remove(start)
		}
		start.state = used
		return start, start.dirty
	}
	a, prev := start.arena, start.prev
	e := &extent{offset: start.offset, length: length, state: used}
	var rest *extent
	reused, taken := 0, 0
	for next := start; taken < length; {
		x := next
		next = x.next
		part := min(x.length, length-taken)
		p.verify(x)
		here, after := p.split(x, part)
		if here > 0 {
			e.dirty = taken + min(part, max(here, x.dirty)) // where old contents may end
		}
		if part < x.length {
			rest = &extent{offset: x.offset + part, length: x.length - part, dirty: after,
				record: x.record}
		}
		reused, taken = reused+here, taken+part
		p.forget(x)
		a.unlink(x)
	}
	a.link(e, prev)
	if rest != nil {
		a.link(rest, e)
		p.join(rest)
	}
	if a.extents > extentsSlack+2*p.live {
		p.joinAll(a)
	}
	return e, reused
}

// split says how many dirty bytes of x lie in its first part bytes, and how many behind.
func (p *Pool) split(x *extent, part int) (here, after int) {
	if part == x.length || x.dirty == 0 {
		return x.dirty, 0
	}
	if !p.o.Sparse {
		here = min(x.dirty, part)
		return here, x.dirty - here
	}
	mem := x.mem()
	here, after = p.sample(mem[:part], part), p.sample(mem[part:], x.length-part)
	p.budget.freeDirty += int64(here + after - x.dirty)
	return here, after
}

// join replaces a free extent and the free ones behind it by one, as far as their dirty bytes
// allow that (they must be the first ones) and none has row views that are worth keeping.
func (p *Pool) join(e *extent) *extent {
	for {
		n := e.next
		if n == nil || n.state != free || n.bin != nil || e.bin != nil {
			return e
		}
		if !p.o.Sparse && e.dirty != e.length && n.dirty != 0 {
			return e
		}
		e = p.merge(e, n)
	}
}

func (p *Pool) merge(e, n *extent) *extent {
	a, prev := e.arena, e.prev
	both := &extent{offset: e.offset, length: e.length + n.length, dirty: e.dirty + n.dirty}
	for _, x := range []*extent{e, n} {
		p.forget(x)
		a.unlink(x)
	}
	a.link(both, prev)
	return both
}

// joinAll joins without regard to row views: they cost microseconds, a long search costs more.
func (p *Pool) joinAll(a *arena) {
	for e := a.first; e != nil && e.next != nil; {
		n := e.next
		fits := p.o.Sparse || e.dirty == e.length || n.dirty == 0
		if e.state == free && n.state == free && fits {
			e = p.merge(e, n)
		} else {
			e = n
		}
	}
}

// extend grows the highest arena that can by what its free end lacks, or reserves another. It
// returns the first extent of the stretch.
func (p *Pool) extend(length int) (*extent, error) {
	for i := len(p.arenas) - 1; i >= 0; i-- {
		a := p.arenas[i]
		start, have := a.freeEnd()
		if length-have > len(a.mem)-a.frontier {
			continue
		}
		grown, err := p.commit(a, length-have)
		if err != nil {
			return nil, err
		}
		if start == nil {
			start = grown
		}
		return start, nil
	}
	a, err := p.reserve(length)
	if err != nil {
		return nil, err
	}
	start, err := p.commit(a, length)
	if err != nil {
		p.discardArena(a)
	}
	return start, err
}

// freeEnd is the run of free extents below the frontier: its first one and its bytes.
func (a *arena) freeEnd() (start *extent, have int) {
	for e := a.tail; e != nil && e.state == free; e = e.prev {
		start, have = e, have+e.length
	}
	return start, have
}

// commit moves the frontier by at least n bytes and returns them as a free, clean extent.
func (p *Pool) commit(a *arena, n int) (*extent, error) {
	n = min(roundUp(n, max(commitQuantum, p.granule)), len(a.mem)-a.frontier)
	b := a.mem[a.frontier : a.frontier+n : a.frontier+n]
	if err := p.memory.commit(b); err != nil {
		return nil, err
	}
	if err := p.memory.advise(b, p.o.HugePages); err != nil {
		p.faults.Add(1) // advice only: a kernel without huge pages says no
	}
	p.count.commits++
	e := &extent{offset: a.frontier, length: n}
	a.frontier += n
	a.link(e, a.tail)
	return e, nil
}

// reserve takes addresses: a large unit, or less where the system will not give so many.
func (p *Pool) reserve(length int) (*arena, error) {
	least := length + p.granule
	n := max(p.memory.unit(), least)
	for {
		whole, err := p.memory.reserve(n)
		if err == nil {
			a := &arena{pool: p, whole: whole, mem: whole}
			skip := -int(a.base()) & (p.granule - 1)
			end := skip + (n-skip)&^(p.granule-1)
			a.mem = whole[skip:end:end]
			p.addArena(a)
			return a, nil
		}
		if n == least {
			return nil, err
		}
		n = max(roundUp(n/2, p.granule), least)
	}
}

func (p *Pool) discardArena(a *arena) {
	if err := p.memory.release(a.whole); err != nil {
		p.faults.Add(1)
		return
	}
	p.removeArena(a)
}

// carveWhole serves memory that cannot be cut: a free arena of exactly that length, or a new one.
func (p *Pool) carveWhole(length int) (*extent, int, error) {
	if b := p.bins[length]; b != nil && b.head != nil {
		e := b.head
		p.verify(e)
		b.remove(e)
		e.state = used
		return e, e.dirty, nil
	}
	mem, err := p.memory.reserve(length)
	if err != nil {
		return nil, 0, &Error{Kind: ErrNoMemory, Cause: err, Pool: p.o.Name, Row: -1,
			InUse: p.budget.inUse}
	}
	a := &arena{pool: p, whole: mem, mem: mem, frontier: length}
	e := &extent{length: length, state: used}
	a.link(e, nil)
	p.addArena(a)
	return e, 0, nil
}
