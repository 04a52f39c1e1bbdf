package slab

import (
	"errors"
	"io"
)

const (
	// readStep: a lease that is filled from a reader counts for what was read, in such steps.
	readStep = 1 << 20
	// emptyReads in a row are taken for a reader that is stuck.
	emptyReads = 100
)

// Source is an [io.Reader]. It has a name of its own because go vet takes every method called
// ReadFrom with an io.Reader for io.ReaderFrom's.
type Source interface{ io.Reader }

// ReadFrom leases the input too: it reads r to its end into a lease of one row, whose length is
// what was read. More than limit bytes are refused with [ErrTooLong]. The lease counts for what
// was read so far, not for limit, and what was read of a failed input goes back at once.
func (p *Pool) ReadFrom(r Source, limit int) (*Lease, error) {
	_, length, err := p.measure("ReadFrom", 1, limit)
	if err != nil {
		return nil, err
	}
	if n, known := remaining(r); known && n < limit {
		limit = max(n, 1) // a reader that knows its length needs no more addresses
		length = roundUp(limit, p.granule)
	}
	p.mu.Lock()
	e, err := p.reserveFor(length)
	if err != nil {
		p.mu.Unlock()
		return nil, p.fail(err, "ReadFrom", 1, limit, length, nil)
	}
	l := p.lend(e, 1, limit, limit)
	p.mu.Unlock()
	if p.o.Debug&^Guard != 0 {
		p.prepare(l)
	}
	n, err := p.fill(l, r, limit)
	p.shrink(l, n)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// remaining asks a reader that knows how much it has left.
func remaining(r io.Reader) (int, bool) {
	switch r := r.(type) {
	case interface{ Len() int }:
		return r.Len(), true
	case *io.LimitedReader:
		n, known := remaining(r.R)
		if !known || int64(n) > r.N {
			return int(min(r.N, int64(^uint(0)>>1))), false
		}
		return n, true
	}
	return 0, false
}

// reserveFor takes an extent that counts for its dirty bytes only, so far. The caller holds mu.
func (p *Pool) reserveFor(length int) (*extent, error) {
	if e := p.warm(length); e != nil {
		return e, nil
	}
	if err := p.enter(noWait, "ReadFrom", 0); err != nil {
		return nil, err
	}
	p.budget.advance(p.clock())
	e, reused, err := p.carve(length)
	if err != nil {
		p.enforce()
		return nil, err
	}
	p.count.misses++
	e.account = reused
	p.budget.reuse(reused)
	p.enforce()
	return e, nil
}

// fill reads until the end, and lets the lease count for more as it goes.
func (p *Pool) fill(l *Lease, r io.Reader, limit int) (n int, err error) {
	mem := l.e.mem()
	touched, empty := 0, 0
	for {
		if n == limit {
			return n, p.atLimit(r, limit)
		}
		if n == touched {
			step := min(len(mem), roundUp(touched+readStep, p.granule))
			if err := p.widen(l.e, step); err != nil {
				return n, err
			}
			touched = min(step, limit)
		}
		got, err := r.Read(mem[n:touched:touched])
		if got < 0 || got > touched-n {
			return n, p.readError(n, limit, errors.New("the reader returned an impossible count"))
		}
		n += got
		if err == io.EOF {
			return n, nil
		}
		if got > 0 {
			empty = 0
		} else if empty++; empty == emptyReads && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil {
			return n, p.readError(n, limit, err)
		}
	}
}

func (p *Pool) readError(n, limit int, err error) error {
	return &Error{Kind: errRead, Cause: err, Op: "ReadFrom", Pool: p.o.Name, Row: -1,
		Bytes: int64(n), Cap: int64(limit)}
}

var errRead = errors.New("slab: the input broke off")

// atLimit makes sure that the input ends where the limit is.
func (p *Pool) atLimit(r io.Reader, limit int) error {
	var one [1]byte
	for range emptyReads {
		got, err := r.Read(one[:])
		if got > 0 {
			return &Error{Kind: ErrTooLong, Op: "ReadFrom", Pool: p.o.Name, Row: -1,
				Bytes: int64(limit) + 1, Cap: int64(limit)}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return p.readError(limit, limit, err)
		}
	}
	return p.readError(limit, limit, io.ErrNoProgress)
}

// widen lets an extent count for its first upTo bytes, before they are written.
func (p *Pool) widen(e *extent, upTo int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	account := min(max(upTo, e.dirty), e.length)
	grown := account - e.account
	if grown <= 0 || p.o.Sparse {
		return nil
	}
	b := &p.budget
	if !b.fits(int64(grown)) {
		err := p.refuse(nil, "")
		err.Op, err.Bytes = "ReadFrom", int64(account)
		return err
	}
	b.advance(p.clock())
	p.purge(b.inUse + int64(grown) + b.freeDirty - max(b.peak(), b.inUse+int64(grown)))
	e.account = account
	b.inUse += int64(grown)
	b.note()
	p.count.grow += int64(grown)
	p.changed()
	return nil
}

// shrink gives back what a filled lease did not need. Nobody else knows the lease yet.
func (p *Pool) shrink(l *Lease, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := l.e
	length := max(roundUp(n, p.granule), p.granule)
	s := &shape{rows: 1, rowSize: n, stride: n}
	if length < e.length && !p.memory.whole() {
		e = p.cutTail(e, length)
	} else if !p.o.Sparse {
		p.budget.inUse += int64(e.length - e.account)
		e.account = e.length
		p.budget.note()
		p.enforce()
	}
	e.shape, l.shape, l.e = s, s, e
	e.sampled = 0
}

// cutTail replaces a lent extent by its first length bytes and a free rest.
func (p *Pool) cutTail(e *extent, length int) *extent {
	a, prev, b := e.arena, e.prev, &p.budget
	head := &extent{offset: e.offset, length: length, state: used, born: e.born, issue: e.issue,
		record: e.record, dirty: min(e.dirty, length)}
	rest := &extent{offset: e.offset + length, length: e.length - length}
	if !p.o.Sparse {
		rest.dirty = max(e.dirty, min(e.account, e.length)) - length
		rest.dirty = max(rest.dirty, 0)
		head.account = length
	} else {
		head.account = p.sample(head.memIn(a), length)
		rest.dirty = p.sample(rest.memIn(a), 0)
	}
	p.forget(e)
	a.unlink(e)
	e.state = free // for who still looks at it: this is not a lease that got lost
	a.link(head, prev)
	a.link(rest, head)
	if rest.dirty > 0 {
		b.arm(p)
	}
	b.inUse += int64(head.account - e.account)
	b.freeDirty += int64(rest.dirty)
	b.note()
	p.join(rest)
	p.enforce()
	return head
}

func (e *extent) memIn(a *arena) []byte { return a.mem[e.offset : e.offset+e.length] }

// WriteTo writes all rows, one after the other, without the gaps between them.
func (l *Lease) WriteTo(w io.Writer) (written int64, err error) {
	if !l.isLive() {
		return 0, ErrReleased
	}
	if l.shape.stride == l.shape.rowSize {
		n, err := w.Write(l.Bytes())
		return int64(n), err
	}
	for i := range l.shape.rows {
		n, err := w.Write(l.Row(i))
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Reader reads all rows, one after the other. It fails with [ErrReleased] from the release of the
// lease on; it does not keep the lease from being closed.
func (l *Lease) Reader() io.Reader { return &leaseReader{lease: l} }

type leaseReader struct {
	lease *Lease
	row   int
	at    int
}

func (r *leaseReader) Read(b []byte) (int, error) {
	if err := r.lease.Err(); err != nil {
		return 0, err
	}
	for r.row < r.lease.shape.rows {
		row := r.lease.Row(r.row)
		if row == nil {
			return 0, &Error{Kind: ErrReleased, Op: "Read", Pool: r.lease.pool().o.Name, Row: r.row,
				Rows: r.lease.shape.rows, RowSize: r.lease.shape.rowSize}
		}
		if r.at < len(row) {
			n := copy(b, row[r.at:])
			r.at += n
			return n, nil
		}
		r.row, r.at = r.row+1, 0
	}
	return 0, io.EOF
}
