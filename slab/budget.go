package slab

import "time"

const (
	// ticks divide the window. The ring covers between 15 and 16 of them, so never more than it.
	ticks = 16
	// purgeQuantum is the least that is given back at once: a system call costs about a
	// microsecond, a page refaulted about one and a half.
	purgeQuantum = 64 << 10
	// tickPurge bounds how long a tick holds the lock: giving back 64 MiB takes 6 to 13 ms.
	tickPurge = 64 << 20
)

// The budget is the pool's bound: inUse + freeDirty <= the highest inUse of the last window.
// Time is cut into ticks; the ring has the highest inUse of each. One timer turns it, and only
// while there is free dirty memory: without any there is nothing to bound.
type budget struct {
	inUse     int64 // what lent extents count for
	freeDirty int64 // resident bytes of free extents
	reserved  int64 // promised to Gets that wait or are being served; counts against the cap only
	limit     int64 // the cap; 0 is none

	ring    [ticks]int64
	at      int
	step    time.Duration
	clock   time.Duration // last read of the clock: a Get that is warm does not read it
	turned  time.Duration // when the ring was last turned
	timer   alarm
	ticking bool
}

// alarm is a [time.Timer], or a test's.
type alarm interface {
	Reset(time.Duration) bool
	Stop() bool
}

func (b *budget) init(p *Pool) {
	b.limit = p.o.Cap
	b.step = p.o.Window / ticks
	b.turned = p.clock()
	b.clock = b.turned
	if b.timer = p.o.alarm; b.timer == nil {
		b.timer = time.AfterFunc(time.Hour, p.tick)
		b.timer.Stop()
	}
}

func (b *budget) stop() { b.timer.Stop() }

// fits tells whether n more bytes in use stay under the cap.
func (b *budget) fits(n int64) bool {
	return b.limit == 0 || b.inUse+b.reserved+n <= b.limit
}

// note remembers the present level if it is the highest of this tick.
func (b *budget) note() {
	if b.inUse > b.ring[b.at] {
		b.ring[b.at] = b.inUse
	}
}

func (b *budget) peak() int64 {
	peak := b.ring[0]
	for _, v := range b.ring[1:] {
		peak = max(peak, v)
	}
	return peak
}

// advance turns the ring to the present.
func (b *budget) advance(now time.Duration) {
	b.clock = now
	steps := (now - b.turned) / b.step
	if steps <= 0 {
		return
	}
	b.turned += steps * b.step
	for range min(steps, ticks) {
		b.at = (b.at + 1) % ticks
		b.ring[b.at] = b.inUse
	}
}

// reuse moves dirty bytes from the free to the lent.
func (b *budget) reuse(n int) {
	b.freeDirty -= int64(n)
	b.inUse += int64(n)
	b.note()
}

// free moves an extent's bytes from the lent to the free.
func (b *budget) free(e *extent) {
	if e.dirty > 0 {
		b.arm(e.arena.pool)
	}
	b.inUse -= int64(e.account)
	b.freeDirty += int64(e.dirty)
}

// arm starts the timer: some memory is about to become free and dirty.
func (b *budget) arm(p *Pool) {
	if b.ticking {
		return
	}
	b.advance(p.clock())
	b.note()
	b.ticking = true
	b.timer.Reset(b.step)
}

// tick turns the ring and gives back what the new peak forbids. It stops once nothing is left.
func (p *Pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.budget
	if p.closed || !b.ticking {
		return
	}
	b.advance(p.clock())
	excess := b.inUse + b.freeDirty - b.peak()
	p.purge(min(excess, tickPurge))
	switch {
	case excess > tickPurge:
		b.timer.Reset(time.Millisecond)
	case b.freeDirty > 0:
		b.timer.Reset(b.step)
	default:
		b.ticking = false
		p.retract()
		if b.inUse == 0 && p.live == 0 && p.o.OnIdle != nil {
			go p.o.OnIdle()
		}
	}
}

// purge gives at least n bytes of free memory back, from the highest addresses down, or all there
// are.
func (p *Pool) purge(n int64) {
	if n <= 0 {
		return
	}
	for i := len(p.arenas) - 1; i >= 0 && n > 0; i-- {
		for e := p.arenas[i].tail; e != nil && n > 0; {
			prev := e.prev
			if e.state == free && e.dirty > 0 {
				n -= p.discard(e, n)
			}
			e = prev
		}
	}
	p.changed()
}

// discard gives back about n bytes of a free extent, the last ones, and says how many.
func (p *Pool) discard(e *extent, n int64) int64 {
	amount := min(int64(e.dirty), (n+purgeQuantum-1)&^(purgeQuantum-1))
	if p.o.Sparse || p.memory.whole() {
		amount = int64(e.dirty)
	}
	if p.memory.whole() {
		p.forget(e)
		p.removeArena(e.arena)
	} else if err := p.memory.discard(p.discardable(e, int(amount))); err != nil {
		p.faults.Add(1) // locked memory, say: it stays, and stays counted
		return 0
	}
	e.dirty -= int(amount)
	if e.filed {
		e.bin.remove(e)
		e.bin.push(e, false)
	}
	p.budget.freeDirty -= amount
	p.count.purge += amount
	p.count.discards++
	return amount
}

func (p *Pool) discardable(e *extent, amount int) []byte {
	if p.o.Sparse {
		return e.mem()
	}
	return e.mem()[e.dirty-amount : e.dirty]
}

// enforce purges what the budget forbids.
func (p *Pool) enforce() {
	p.purge(p.budget.inUse + p.budget.freeDirty - p.budget.peak())
}

// retract pulls every frontier down over clean free extents, and drops cached views: the pool is
// idle.
func (p *Pool) retract() {
	for i := len(p.arenas) - 1; i >= 0; i-- {
		p.retractArena(p.arenas[i])
	}
	for length, b := range p.bins {
		if b.extents == 0 {
			delete(p.bins, length)
		}
	}
	p.last = nil
	p.spare = nil // used leases of the batch keep their row views alive
	p.kept = nil
}

func (p *Pool) retractArena(a *arena) {
	to := a.frontier
	for e := a.tail; e != nil && e.state == free && e.dirty == 0; e = e.prev {
		to = e.offset
	}
	if to == a.frontier || p.memory.whole() {
		return
	}
	if err := p.memory.retract(a.mem[to:a.frontier]); err != nil {
		p.faults.Add(1)
		return
	}
	for a.tail != nil && a.tail.offset >= to {
		p.forget(a.tail)
		a.unlink(a.tail)
	}
	a.frontier = to
	if to == 0 && len(p.arenas) > 1 {
		p.discardArena(a)
	}
}

// mapped is how many bytes are committed.
func (p *Pool) mapped() (bytes int64) {
	for _, a := range p.arenas {
		bytes += int64(a.frontier)
	}
	return bytes
}
