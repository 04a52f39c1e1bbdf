package slab

import (
	"fmt"
	"time"
)

// HugePages says how the kernel should page the pool's memory.
type HugePages int

const (
	// SystemDefault leaves huge pages to the machine's setting. A sparse pool refuses them even so
	// unless told otherwise: one touched byte would make 2 MiB resident.
	SystemDefault HugePages = iota
	// Advise asks for huge pages and rounds every lease up to 2 MiB: fewer faults and TLB misses
	// for pools of large leases, waste for small ones.
	Advise
	// Refuse asks for small pages.
	Refuse
)

// DefaultWindow is how far back the pool looks for the peak that bounds what it keeps.
const DefaultWindow = 10 * time.Second

// windowMin keeps a tick (a sixteenth of the window) well above the scheduler's noise.
const windowMin = 10 * time.Millisecond

// Options of a pool. The zero value is a regular pool without a cap.
type Options struct {
	// Name appears in errors, stats and metrics.
	Name string
	// Cap is the most bytes that may be resident for leases and for reuse together; 0 means no
	// cap. At the cap [Pool.Get] fails and [Pool.GetContext] waits.
	Cap int64
	// Window: in-use plus free dirty bytes never exceed the peak in use over the last Window;
	// [DefaultWindow] if 0.
	Window time.Duration
	// HugePages is advice to the kernel.
	HugePages HugePages
	// Sparse pools budget the bytes that leases really dirtied (sampled with mincore), not the
	// bytes asked for: for scratch that is asked for in full and mostly left alone. Never let
	// such leases share a pool with others: they would inherit the others' dirty pages.
	Sparse bool
	// Zero hands out zeroed memory. Without it a lease holds whatever the last one left there,
	// of this pool, hence of this process.
	Zero bool
	// Panic turns misuse (a second release, foreign memory ...) from an error into a panic.
	Panic bool
	// OnMisuse, if set, is called with every misuse, before it is returned or panics. It must not
	// call the pool.
	OnMisuse func(error)
	// OnIdle, if set, is called from a goroutine of its own when nothing is in use any more and all
	// memory was given back, a window after the load stopped: the moment to give back what the Go
	// heap holds as well, see [runtime/debug.FreeOSMemory].
	OnIdle func()
	// GoHeap takes memory from the Go heap instead of the kernel: for the race detector, which
	// does not see other memory. Whole leases only go back, when the collector runs.
	GoHeap bool
	// Debug adds checks to this pool; the variable [Debug] adds them to all that are made later.
	Debug DebugMode

	memory memory               // tests put one that fails here,
	clock  func() time.Duration // and a clock
	alarm  alarm                // that they turn
}

func (o *Options) check() error {
	bad := func(what string, args ...any) error {
		return &Error{Kind: ErrOptions, Op: "New", Pool: o.Name, Row: -1,
			Detail: fmt.Sprintf(what, args...)}
	}
	switch {
	case o.Cap < 0:
		return bad("Cap %d is negative; 0 means no cap", o.Cap)
	case o.Cap > 0 && o.Cap < int64(pageSize):
		return bad("Cap %d is less than a page of %d bytes", o.Cap, pageSize)
	case o.Window < 0 || o.Window > 0 && o.Window < windowMin:
		return bad("Window %v is less than %v; 0 means %v", o.Window, windowMin, DefaultWindow)
	case o.HugePages < SystemDefault || o.HugePages > Refuse:
		return bad("HugePages %d is none of SystemDefault, Advise, Refuse", o.HugePages)
	case o.Debug&^(Guard|Poison|Stacks) != 0:
		return bad("Debug %#x has unknown bits", uint(o.Debug))
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Sparse && o.HugePages == SystemDefault {
		o.HugePages = Refuse
	}
	o.Debug |= Debug
	if o.clock == nil {
		o.clock = sinceEpoch
	}
	if o.memory == nil {
		o.memory = systemMemory()
	}
	if o.GoHeap {
		o.memory = heapMemory{}
	}
	if o.memory.whole() {
		o.Debug &^= Guard // the Go heap cannot be protected
	}
}
