package slab

import "time"

// sampleEvery: an extent that is lent again and again dirties the same pages each time; it is
// measured once a second, not at every Close.
const sampleEvery = time.Second

// sample measures how many bytes of b are resident; fallback if the kernel does not say.
func (p *Pool) sample(b []byte, fallback int) int {
	n, err := p.memory.resident(b)
	if err != nil {
		p.faults.Add(1)
		return fallback
	}
	return min(int(n), len(b))
}

// sampleClosed sets how many bytes of a sparse extent are dirty now that its lease has ended. What
// the lease touched counts as in use first, so that the peak knows it.
func (p *Pool) sampleClosed(e *extent) {
	e.dirty = e.account
	if e.sampled == 0 || e.born-e.sampled > sampleEvery {
		p.sampleLent(e)
		e.dirty = e.account
	}
}

// sampleLent measures a lent sparse extent and corrects in-use by the difference.
func (p *Pool) sampleLent(e *extent) {
	n := p.sample(e.mem(), e.account)
	e.sampled = max(e.born, 1)
	grown := int64(n - e.account)
	e.account = n
	if grown == 0 {
		return
	}
	p.budget.inUse += grown
	p.budget.note()
	p.count.grow += max(grown, 0)
	p.enforce()
	p.changed()
}

// expect is what a Get of that length will count for: its length, or in a sparse pool what the
// newest extent of that length turned out to dirty (0 while unknown).
func (p *Pool) expect(length int) int64 {
	if !p.o.Sparse {
		return int64(length)
	}
	if b := p.bins[length]; b != nil && b.head != nil {
		return int64(b.head.dirty)
	}
	return 0
}
