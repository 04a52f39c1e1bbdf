package slab

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// hugePage is the size that the kernel backs and that Advise rounds to.
const hugePage = 2 << 20

// Pool lends regions of page-aligned memory and takes them back. It is safe for concurrent use.
// Make one with [New].
type Pool struct {
	o       Options
	memory  memory
	clock   func() time.Duration // since some fixed moment
	granule int                  // lengths of extents are multiples of it

	misuses atomic.Int64
	faults  atomic.Int64 // discards, protections and samples that the kernel refused
	lost    atomic.Int64

	mu     sync.Mutex
	closed bool
	arenas []*arena // by address
	bins   map[int]*bin
	last   *bin      // of the newest lease: services ask for one size again and again
	spare  []Lease   // single-use leases are allocated by the batch
	kept   []viewSet // of extents that were cut or joined
	live   int       // leases
	budget budget
	queue  queue
	guard  quarantine
	count  counters
	found  error  // poison that was written to, not yet reported
	resize func() // set by TieMemoryLimit: resident bytes have changed
}

// counters only rise.
type counters struct {
	gets, misses, closes int64
	grow, purge          int64
	waits                int64
	wait                 time.Duration
	commits, discards    int64
}

// leaseBatch: leases are never used twice, so that a stale one can be told from its successor for
// ever; a batch makes that one allocation for so many.
const leaseBatch = 64

// epoch makes reading the clock one call instead of two: only differences matter.
var epoch = time.Now()

func sinceEpoch() time.Duration { return time.Since(epoch) }

// New makes a pool. It maps nothing before the first Get.
func New(o Options) (*Pool, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.setDefaults()
	p := &Pool{o: o, memory: o.memory, clock: o.clock, granule: pageSize, bins: map[int]*bin{}}
	if o.HugePages == Advise {
		p.granule = max(hugePage, pageSize)
	}
	p.budget.init(p)
	if o.Debug&Guard != 0 {
		startMonitor()
	}
	register(p)
	return p, nil
}

// Name is Options.Name.
func (p *Pool) Name() string { return p.o.Name }

// noWait instead of a context: fail at the cap.
var noWait context.Context

// Get lends rows rows of rowSize bytes each. It does not wait: at the cap it fails with [ErrCap].
// The memory is zeroed only under Options.Zero.
func (p *Pool) Get(rows, rowSize int) (*Lease, error) {
	return p.get(noWait, "Get", rows, rowSize)
}

// GetContext is Get, but where the cap stands in the way it waits until enough leases are closed
// or ctx is done. Those who wait are served in the order in which they came.
func (p *Pool) GetContext(ctx context.Context, rows, rowSize int) (*Lease, error) {
	return p.get(ctx, "GetContext", rows, rowSize)
}

func (p *Pool) get(ctx context.Context, op string, rows, rowSize int) (*Lease, error) {
	stride, length, err := p.measure(op, rows, rowSize)
	if err != nil {
		return nil, err
	}
	if ctx != nil && ctx.Err() != nil {
		return nil, p.fail(ErrDone, op, rows, rowSize, length, context.Cause(ctx))
	}
	p.mu.Lock()
	e := p.warm(length)
	if e == nil {
		if e, err = p.cold(ctx, op, length); err != nil {
			p.mu.Unlock()
			return nil, p.fail(err, op, rows, rowSize, length, nil)
		}
	}
	l := p.lend(e, rows, rowSize, stride)
	p.mu.Unlock()
	if p.o.Zero || p.o.Debug != 0 {
		p.prepare(l)
	}
	return l, nil
}

// measure checks a shape and gives its stride and its length in whole granules.
func (p *Pool) measure(op string, rows, rowSize int) (stride, length int, err error) {
	const limit = int(^uint(0)>>1) - 2*hugePage // addresses are signed, and rounding adds to them
	if rows <= 0 || rowSize <= 0 || rows > 1<<31-1 || rowSize > limit {
		return 0, 0, p.fail(ErrSize, op, rows, rowSize, 0, nil)
	}
	stride = roundUp(rowSize, rowAlign)
	if p.o.Debug&Poison != 0 && (p.o.Debug&Guard == 0 || rowSize%pageSize != 0) {
		stride += canaryBytes // rows of whole pages are protected instead
	}
	if stride > limit/rows {
		return 0, 0, p.fail(ErrSize, op, rows, rowSize, 0, nil)
	}
	return stride, roundUp(rows*stride, p.granule), nil
}

// warm takes the newest fully dirty extent of that length: no system call, no change of what is
// resident. The caller holds mu.
func (p *Pool) warm(length int) *extent {
	b := p.last
	if b == nil || b.length != length {
		if b = p.bins[length]; b == nil {
			return nil
		}
		p.last = b
	}
	e := b.head
	if e == nil || p.closed || e.dirty == 0 || e.dirty < length && !p.o.Sparse {
		return nil
	}
	if p.o.Cap != 0 && !p.budget.fits(int64(e.dirty)) {
		return nil
	}
	b.remove(e)
	e.state, e.account = used, e.dirty
	p.budget.reuse(e.dirty)
	return e
}

// lend makes the extent a lease. The caller holds mu.
func (p *Pool) lend(e *extent, rows, rowSize, stride int) *Lease {
	if len(p.spare) == 0 {
		p.spare = make([]Lease, leaseBatch)
	}
	l := &p.spare[0]
	p.spare = p.spare[1:]
	if p.o.Debug&Stacks != 0 {
		l = new(Lease) // on its own, so that the collector can tell when it is lost
	}
	s := e.shape
	if s == nil || s.rows != rows || s.rowSize != rowSize || s.stride != stride {
		p.keepViews(s)
		s = &shape{rows: rows, rowSize: rowSize, stride: stride}
		e.shape, e.sampled = s, 0
	}
	e.issue++
	l.e, l.shape = e, s
	e.born = p.budget.clock
	p.live++
	p.count.gets++
	return l
}

// put takes an extent back from its lease. The caller must be the one that ended the lease.
func (p *Pool) put(e *extent) {
	p.mu.Lock()
	p.live--
	p.count.closes++
	if p.closed {
		p.drop(e)
		p.mu.Unlock()
		return
	}
	if p.o.Sparse {
		p.sampleClosed(e)
	} else {
		e.dirty = e.length
	}
	p.budget.free(e)
	e.state = free
	if p.o.Debug&Guard != 0 {
		p.isolate(e)
	} else {
		p.file(e)
	}
	if p.queue.head != nil {
		p.admit()
	}
	p.mu.Unlock()
}

// file puts a free extent into the bin of its length, the dirty ones first.
func (p *Pool) file(e *extent) {
	b := e.bin
	if b == nil {
		if b = p.bins[e.length]; b == nil {
			b = &bin{length: e.length}
			p.bins[e.length] = b
		}
		e.bin = b
		b.extents++
	}
	b.push(e, e.dirty > 0)
}

// drop ends an extent of a closed pool; with the last one the addresses go.
func (p *Pool) drop(e *extent) {
	p.budget.inUse -= int64(e.account)
	if p.live == 0 {
		p.unmap()
	}
}

// Trim gives all free memory back to the kernel now and says how many bytes that were.
func (p *Pool) Trim() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.count.purge
	p.purge(p.budget.freeDirty)
	p.retract()
	return p.count.purge - before
}

// Close ends the pool: every later Get fails with [ErrClosed], and so do those who wait. Memory
// of live leases stays valid until they are closed; Close reports them with [ErrLive].
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return &Error{Kind: ErrClosed, Op: "Close", Pool: p.o.Name, Row: -1}
	}
	p.closed = true
	p.budget.stop()
	p.admit()
	unregister(p)
	if p.live == 0 {
		p.unmap()
		return nil
	}
	return &Error{Kind: ErrLive, Op: "Close", Pool: p.o.Name, Row: -1, Bytes: p.budget.inUse,
		Detail: plural(p.live, "lease")}
}

// unmap gives all addresses back. The caller holds mu; nobody has a lease.
func (p *Pool) unmap() {
	for _, a := range p.arenas {
		if err := p.memory.release(a.whole); err != nil {
			p.faults.Add(1)
		}
	}
	p.count.purge += p.budget.freeDirty
	p.arenas, p.bins, p.last, p.guard = nil, nil, nil, quarantine{}
	p.budget.freeDirty = 0
	p.changed()
}

// changed tells who tied the memory limit to this pool.
func (p *Pool) changed() {
	if p.resize != nil {
		p.resize()
	}
}

// fail makes an error with the pool's numbers; it passes on one that has them.
func (p *Pool) fail(err error, op string, rows, rowSize, length int, cause error) error {
	if done, ok := err.(*Error); ok {
		done.Op, done.Rows, done.RowSize, done.Bytes = op, rows, rowSize, int64(length)
		return done
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &Error{Kind: err, Cause: cause, Pool: p.o.Name, Op: op, Rows: rows, RowSize: rowSize,
		Row: -1, Bytes: int64(length), InUse: p.budget.inUse, Cap: p.o.Cap}
}
