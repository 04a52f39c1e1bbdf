package slab

import (
	"context"
	"time"
)

// A waiter is a GetContext that found no room under the cap.
type waiter struct {
	need       int64
	granted    chan struct{} // closed once need is reserved for it, or the pool is closed
	prev, next *waiter
}

// queue is the waiters, first come first.
type queue struct {
	head, tail *waiter
	count      int
}

func (q *queue) push(w *waiter) {
	w.prev = q.tail
	if q.tail != nil {
		q.tail.next = w
	} else {
		q.head = w
	}
	q.tail = w
	q.count++
}

func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.prev, w.next = nil, nil
	q.count--
}

// enter reserves need bytes under the cap, waiting for them if there is a ctx. The caller holds
// mu.
func (p *Pool) enter(ctx context.Context, op string, need int64) error {
	if p.closed {
		return ErrClosed
	}
	b := &p.budget
	switch {
	case b.limit != 0 && need > b.limit:
		return p.refuse(nil, "it can never fit")
	case b.fits(need) && (ctx == nil || p.queue.head == nil):
		b.reserved += need
		return nil
	case ctx == nil:
		return p.refuse(nil, "")
	}
	return p.wait(ctx, need)
}

// refuse is an ErrCap that get completes with the shape.
func (p *Pool) refuse(cause error, detail string) *Error {
	return &Error{Kind: ErrCap, Cause: cause, Pool: p.o.Name, Row: -1, InUse: p.budget.inUse,
		Cap: p.o.Cap, Detail: detail}
}

// wait stands in line; it returns with need reserved, or with an error.
func (p *Pool) wait(ctx context.Context, need int64) error {
	w := &waiter{need: need, granted: make(chan struct{})}
	p.queue.push(w)
	begun := p.clock()
	p.mu.Unlock()
	select {
	case <-w.granted:
	case <-ctx.Done():
	}
	p.mu.Lock()
	waited := p.clock() - begun
	p.count.waits++
	p.count.wait += waited
	select {
	case <-w.granted:
		if p.closed {
			p.budget.reserved -= need
			return ErrClosed
		}
		return nil
	default:
		p.queue.remove(w)
		p.admit() // who stood behind it may fit
		return p.refuse(context.Cause(ctx), "waited "+waited.Round(time.Microsecond).String())
	}
}

// admit grants, in order, whatever fits now; all of them if the pool is closed. The caller holds
// mu.
func (p *Pool) admit() {
	for w := p.queue.head; w != nil; w = p.queue.head {
		if !p.closed && !p.budget.fits(w.need) {
			return
		}
		p.budget.reserved += w.need
		p.queue.remove(w)
		close(w.granted)
	}
}
