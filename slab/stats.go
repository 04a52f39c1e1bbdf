package slab

import (
	"slices"
	"time"
)

// Stats is a snapshot of a pool. Bytes and counts; those called totals only rise.
type Stats struct {
	Name string

	InUse     int64 // bytes of live leases, in whole pages; in a sparse pool those they dirtied
	FreeDirty int64 // bytes kept resident for reuse
	Mapped    int64 // bytes of committed addresses, resident or not
	// PeakInWindow is the highest InUse of the last window; InUse + FreeDirty never exceed it.
	PeakInWindow   int64
	AskedUntouched int64 // sparse pools: bytes of live leases that were never touched
	Cap            int64 // 0: none

	Leases int // live
	// OldestLease is the age of the oldest live lease, to a sixteenth of the window; 0 without one.
	OldestLease time.Duration
	Waiting     int // GetContexts that wait under the cap

	Gets       int64         // total of leases
	Closes     int64         // total of leases that ended
	Misses     int64         // total of Gets that no warm memory of their length fitted
	GrowBytes  int64         // total that became resident for leases
	PurgeBytes int64         // total given back to the kernel
	Waits      int64         // total of GetContexts that had to wait
	WaitTime   time.Duration // total
	Misuses    int64         // total of releases that were refused, and corruptions found
	Refusals   int64         // total of calls (discard, protect, measure) that the kernel refused
	Leaked     int64         // total of leases that the collector found unclosed (Stacks)
}

// Stats measures live leases of a sparse pool (about a microsecond a MiB); of a regular pool it
// only reads counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	b := &p.budget
	b.advance(now)
	var untouched int64
	if p.o.Sparse {
		untouched = p.sampleAll()
	}
	p.enforce()
	s := Stats{Name: p.o.Name, InUse: b.inUse, FreeDirty: b.freeDirty, Mapped: p.mapped(),
		PeakInWindow: b.peak(), AskedUntouched: untouched, Cap: p.o.Cap,
		Leases: p.live, Waiting: p.queue.count,
		Gets: p.count.gets, Closes: p.count.closes, Misses: p.count.misses,
		GrowBytes: p.count.grow, PurgeBytes: p.count.purge,
		Waits: p.count.waits, WaitTime: p.count.wait,
		Misuses: p.misuses.Load(), Refusals: p.faults.Load(), Leaked: p.lost.Load()}
	p.eachLent(func(e *extent) { s.OldestLease = max(s.OldestLease, now-e.born) })
	return s
}

// sampleAll measures every live lease and says how much of what they asked for is untouched.
func (p *Pool) sampleAll() (untouched int64) {
	p.eachLent(func(e *extent) {
		p.sampleLent(e)
		untouched += int64(e.length - e.account)
	})
	return untouched
}

// Pools lists every open pool, by name.
func Pools() []*Pool {
	pools := openPools()
	slices.SortFunc(pools, func(a, b *Pool) int {
		switch {
		case a.o.Name < b.o.Name:
			return -1
		case a.o.Name > b.o.Name:
			return 1
		}
		return 0
	})
	return pools
}
