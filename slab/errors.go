package slab

import (
	"errors"
	"fmt"
	"strings"
)

// What an error is about. Errors of this package that carry numbers are of type [*Error] and wrap
// one of these: test with [errors.Is].
var (
	// ErrSize: a size that is zero, negative or too large to be addressed.
	ErrSize = errors.New("slab: size out of range")
	// ErrCap: the request does not fit under the pool's cap now, or never will.
	ErrCap = errors.New("slab: cap reached")
	// ErrDone: the context was done before the call; its cause is wrapped too.
	ErrDone = errors.New("slab: context is done")
	// ErrClosed: the pool is closed.
	ErrClosed = errors.New("slab: pool is closed")
	// ErrReleased: the lease or the row has been released before.
	ErrReleased = errors.New("slab: already released")
	// ErrRow: the lease has no row of that index.
	ErrRow = errors.New("slab: no such row")
	// ErrForeign: the memory belongs to no lease of this pool.
	ErrForeign = errors.New("slab: foreign memory")
	// ErrInnerRow: the memory lies inside a lease, but not where a row (or the lease) begins.
	ErrInnerRow = errors.New("slab: not the beginning of a row or lease")
	// ErrWrongPool: the memory belongs to another pool or another lease.
	ErrWrongPool = errors.New("slab: memory of another pool or lease")
	// ErrNoMemory: the kernel refused memory; the refusal itself is wrapped too.
	ErrNoMemory = errors.New("slab: no memory")
	// ErrLive: the pool was closed while leases were live; their memory stays until they close.
	ErrLive = errors.New("slab: leases are still live")
	// ErrCorrupt: released memory was written to, or a row was written past its end (debug modes).
	ErrCorrupt = errors.New("slab: memory was overwritten")
	// ErrTooLong: a reader had more to give than the lease may hold.
	ErrTooLong = errors.New("slab: input longer than its limit")
	// ErrOptions: an option that makes no sense.
	ErrOptions = errors.New("slab: bad options")
)

// Error is an error with its numbers. Fields that do not apply are zero; Row is -1 then.
type Error struct {
	Kind    error  // one of the Err values of this package
	Cause   error  // what the kernel, the context or the reader said; may be nil
	Pool    string // Options.Name
	Op      string // the call that failed
	Rows    int
	RowSize int
	Row     int   // index of the row
	Bytes   int64 // asked for, or found
	InUse   int64 // of the pool, when it failed
	Cap     int64 // of the pool, or the limit that was passed
	Detail  string
}

// Error gives the kind, the pool, the call and every number that is set.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.Error())
	fmt.Fprintf(&b, ": %s", e.Op)
	if e.Pool != "" {
		fmt.Fprintf(&b, " on pool %q", e.Pool)
	}
	if e.Kind == ErrSize || e.Rows != 0 || e.RowSize != 0 {
		fmt.Fprintf(&b, ", %d rows of %d bytes", e.Rows, e.RowSize)
	}
	if e.Row >= 0 {
		fmt.Fprintf(&b, ", row %d", e.Row)
	}
	if e.Bytes != 0 {
		fmt.Fprintf(&b, ", %d bytes", e.Bytes)
	}
	if e.Cap != 0 {
		fmt.Fprintf(&b, ", limit %d", e.Cap)
	}
	if e.Kind == ErrCap || e.Kind == ErrNoMemory || e.InUse != 0 {
		fmt.Fprintf(&b, ", %d in use", e.InUse)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Unwrap makes [errors.Is] find the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}
