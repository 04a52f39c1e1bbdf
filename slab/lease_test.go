package slab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func newPool(tb testing.TB, o Options) *Pool {
	tb.Helper()
	p, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close() })
	return p
}

func get(tb testing.TB, p *Pool, rows, rowSize int) *Lease {
	tb.Helper()
	l, err := p.Get(rows, rowSize)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func mustClose(tb testing.TB, l *Lease) {
	tb.Helper()
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
}

func wantKind(tb testing.TB, err, kind error) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Fatalf("got %v, want %v", err, kind)
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func TestShapes(t *testing.T) {
	for _, o := range []Options{{}, {Sparse: true}, {GoHeap: true}, {Zero: true},
		{HugePages: Advise}, {Debug: Poison | Stacks}} {
		p := newPool(t, o)
		for _, s := range [][2]int{{1, 1}, {3, 7}, {1, 4096}, {16, 64}, {5, 4097}, {700, 320}, {2, 1 << 20}} {
			l := get(t, p, s[0], s[1])
			checkShape(t, l, s[0], s[1])
			mustClose(t, l)
		}
	}
}

func checkShape(t *testing.T, l *Lease, rows, size int) {
	t.Helper()
	if n, each := l.Size(); n != rows || each != size {
		t.Fatalf("size %d x %d, want %d x %d", n, each, rows, size)
	}
	views := l.Rows()
	if len(views) != rows || cap(views) != rows {
		t.Fatalf("%d rows (cap %d), want %d", len(views), cap(views), rows)
	}
	if address(l.Bytes())%uintptr(pageSize) != 0 {
		t.Fatalf("region at %#x is not on a page", address(l.Bytes()))
	}
	for i, row := range views {
		if len(row) != size || cap(row) != size {
			t.Fatalf("row %d: len %d cap %d, want %d", i, len(row), cap(row), size)
		}
		if address(row)%rowAlign != 0 {
			t.Fatalf("row %d at %#x is not aligned to %d", i, address(row), rowAlign)
		}
		if address(l.Row(i)) != address(row) || address(row) != address(l.Bytes())+uintptr(i*l.Stride()) {
			t.Fatalf("row %d: Row, Rows and Bytes disagree", i)
		}
		row[0], row[size-1] = byte(i), byte(i)
	}
	if l.Row(-1) != nil || l.Row(rows) != nil {
		t.Fatal("a row that does not exist")
	}
}

func TestHeadersAreRestored(t *testing.T) {
	p := newPool(t, Options{})
	l := get(t, p, 100, 256)
	rows := l.Rows()
	first := address(rows[7])
	rows[7], rows[8], rows[9] = rows[7][:10], nil, make([]byte, 5)
	if &l.Rows()[0] != &rows[0] || len(l.Rows()[7]) != 10 {
		t.Fatal("the owner's own slicing is lost within the lease")
	}
	mustClose(t, l)
	l = get(t, p, 100, 256)
	if address(l.Row(7)) != first {
		t.Fatal("not the same extent: nothing is tested")
	}
	for i, row := range l.Rows() {
		if len(row) != 256 || address(row) != address(l.Row(i)) {
			t.Fatalf("row %d was not restored", i)
		}
	}
	mustClose(t, l)
}

func TestReleasedLeaseGivesNothing(t *testing.T) {
	p := newPool(t, Options{})
	l := get(t, p, 4, 64)
	r := l.Reader()
	mustClose(t, l)
	if l.Rows() != nil || l.Row(0) != nil || l.Bytes() != nil {
		t.Fatal("memory from a released lease")
	}
	wantKind(t, l.Err(), ErrReleased)
	wantKind(t, l.Close(), ErrReleased)
	wantKind(t, l.Free([]int{0}), ErrReleased)
	wantKind(t, l.Free(nil), ErrReleased)
	wantKind(t, l.FreeRows(nil), ErrReleased)
	_, err := r.Read(make([]byte, 1))
	wantKind(t, err, ErrReleased)
	_, err = l.WriteTo(&bytes.Buffer{})
	wantKind(t, err, ErrReleased)
	if n := p.Stats().Misuses; n != 4 {
		t.Fatalf("%d misuses counted, want 4", n)
	}
}

// A stale lease must not touch its successor on the same memory.
func TestStaleLease(t *testing.T) {
	p := newPool(t, Options{})
	old := get(t, p, 8, 4096)
	rows := append([][]byte(nil), old.Rows()...)
	mustClose(t, old)
	l := get(t, p, 8, 4096)
	if address(l.Row(0)) != address(rows[0]) {
		t.Fatal("not the same extent: nothing is tested")
	}
	wantKind(t, old.Close(), ErrReleased)
	wantKind(t, old.Free([]int{1}), ErrReleased)
	wantKind(t, old.FreeRows(rows[:1]), ErrReleased)
	other := get(t, p, 8, 4096)
	if l.Err() != nil || address(other.Row(0)) == address(l.Row(0)) {
		t.Fatal("the stale lease released its successor")
	}
	mustClose(t, l)
	mustClose(t, other)
}

func TestPartialRelease(t *testing.T) {
	p := newPool(t, Options{})
	l := get(t, p, 130, 64)
	if err := l.Free([]int{}); err != nil || l.Err() != nil {
		t.Fatal("an empty release", err)
	}
	if err := l.Free([]int{129, 0, 64}); err != nil {
		t.Fatal(err)
	}
	if l.Row(64) != nil || l.Row(65) == nil {
		t.Fatal("released rows must be nil, others not")
	}
	wantKind(t, l.Free([]int{1, 64}), ErrReleased)
	wantKind(t, l.Free([]int{1, 130}), ErrRow)
	wantKind(t, l.Free([]int{1, -1}), ErrRow)
	wantKind(t, l.Free([]int{5, 5}), ErrReleased)
	if l.Row(1) == nil || l.Row(5) == nil {
		t.Fatal("a refused release released something")
	}
	if p.Stats().Leases != 1 {
		t.Fatal("the lease is gone")
	}
	for i := range 130 {
		if i != 0 && i != 64 && i != 129 {
			if err := l.FreeRow(i); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	if s := p.Stats(); s.Leases != 0 || s.InUse != 0 || l.Err() == nil {
		t.Fatalf("the last row did not release the lease: %+v", s)
	}
	mustClose(t, l)
	wantKind(t, l.Close(), ErrReleased)
	l = get(t, p, 130, 64)
	if l.Row(64) == nil {
		t.Fatal("released bits of the last lease")
	}
	mustClose(t, l)
}

func TestFreeBySlice(t *testing.T) {
	p, q := newPool(t, Options{Name: "p"}), newPool(t, Options{Name: "q"})
	l, other, foreign := get(t, p, 8, 4096), get(t, p, 8, 4096), get(t, q, 8, 4096)
	rows := l.Rows()
	if err := l.FreeRows([][]byte{rows[3][:1], rows[5]}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, l.FreeRows([][]byte{rows[1], rows[3]}), ErrReleased)
	wantKind(t, l.FreeRows([][]byte{rows[1], rows[2][64:]}), ErrInnerRow)
	wantKind(t, l.FreeRows([][]byte{rows[1], other.Row(0)}), ErrWrongPool)
	wantKind(t, l.FreeRows([][]byte{rows[1], foreign.Row(0)}), ErrWrongPool)
	wantKind(t, l.FreeRows([][]byte{rows[1], make([]byte, 4096)}), ErrForeign)
	wantKind(t, l.FreeRows([][]byte{rows[1], nil}), ErrForeign)
	if l.Row(1) == nil || other.Err() != nil || foreign.Err() != nil {
		t.Fatal("a refused release released something")
	}
	for _, l := range []*Lease{l, other, foreign} {
		mustClose(t, l)
	}
}

func TestPanicOption(t *testing.T) {
	var seen error
	p := newPool(t, Options{Panic: true, OnMisuse: func(err error) { seen = err }})
	l := get(t, p, 1, 64)
	mustClose(t, l)
	defer func() {
		err, _ := recover().(error)
		wantKind(t, err, ErrReleased)
		wantKind(t, seen, ErrReleased)
	}()
	_ = l.Close()
	t.Fatal("no panic")
}

func TestBadSizes(t *testing.T) {
	p := newPool(t, Options{Name: "bad"})
	for _, s := range [][2]int{{0, 64}, {64, 0}, {-1, 64}, {64, -5}, {math.MaxInt, 2},
		{2, math.MaxInt}, {math.MaxInt, math.MaxInt}, {math.MaxInt/2 + 1, 64}, {math.MaxInt32, math.MaxInt / 2},
		{math.MinInt, math.MinInt}} {
		l, err := p.Get(s[0], s[1])
		if l != nil {
			t.Fatalf("%v gave a lease", s)
		}
		wantKind(t, err, ErrSize)
		var e *Error
		if !errors.As(err, &e) || e.Rows != s[0] || e.RowSize != s[1] {
			t.Fatalf("the numbers are not in %#v", err)
		}
		if text := err.Error(); !strings.Contains(text, fmt.Sprint(s[0])) || !strings.Contains(text, fmt.Sprint(s[1])) {
			t.Fatalf("the numbers are not in %q", text)
		}
	}
	if s := p.Stats(); s.Gets != 0 || s.InUse != 0 || s.Mapped != 0 {
		t.Fatalf("refused sizes left %+v", s)
	}
}

func TestHugeButAddressable(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("SKIPPED: 32 bits have no size that is addressable and absurd")
	}
	p := newPool(t, Options{})
	if l, err := p.Get(1, math.MaxInt/4); err == nil { // more than the address space has
		t.Fatal("a lease of 2 EiB", l)
	} else {
		wantKind(t, err, ErrNoMemory)
	}
	mustClose(t, get(t, p, 1, 64))
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{{Cap: -1}, {Cap: 1}, {Window: -1}, {Window: 1}, {HugePages: 9},
		{HugePages: -1}, {Debug: 1 << 9}} {
		p, err := New(o)
		if p != nil {
			t.Fatalf("%+v made a pool", o)
		}
		wantKind(t, err, ErrOptions)
	}
}

func TestClosedPool(t *testing.T) {
	p, err := New(Options{Name: "closing"})
	if err != nil {
		t.Fatal(err)
	}
	l := get(t, p, 4, 4096)
	err = p.Close()
	wantKind(t, err, ErrLive)
	if !strings.Contains(err.Error(), "1 lease") || !strings.Contains(err.Error(), "16384 bytes") {
		t.Fatal(err)
	}
	l.Row(3)[0] = 1 // still ours
	_, err = p.Get(1, 1)
	wantKind(t, err, ErrClosed)
	_, err = p.GetContext(context.Background(), 1, 1)
	wantKind(t, err, ErrClosed)
	_, err = p.ReadFrom(strings.NewReader("x"), 10)
	wantKind(t, err, ErrClosed)
	wantKind(t, p.Close(), ErrClosed)
	mustClose(t, l)
	wantKind(t, l.Close(), ErrReleased)
	if s := p.Stats(); s.Mapped != 0 || s.InUse != 0 {
		t.Fatalf("memory is left: %+v", s)
	}
	if p.Trim() != 0 {
		t.Fatal("Trim of a closed pool")
	}
}

// A finaliser may release: nothing is locked and nothing of its goroutine is needed.
func TestReleaseFromFinalizer(t *testing.T) {
	p := newPool(t, Options{})
	done := make(chan error, 2)
	func() {
		type owner struct{ l *Lease }
		o := &owner{get(t, p, 4, 64)}
		runtime.SetFinalizer(o, func(o *owner) { done <- o.l.Close(); done <- o.l.Close() })
	}()
	var errs []error
	for len(errs) < 2 {
		runtime.GC()
		select {
		case err := <-done:
			errs = append(errs, err)
		default:
			runtime.Gosched()
		}
	}
	if errs[0] != nil || errs[1] != ErrReleased {
		t.Fatal(errs)
	}
}

// A child process must not harm what the parent holds, nor the pool.
func TestFork(t *testing.T) {
	p := newPool(t, Options{})
	l := get(t, p, 64, 4096)
	for i := range 64 {
		fill(l.Row(i), byte(i))
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Skip("SKIPPED: no program to start:", err)
	}
	for i := range 64 {
		if at := differs(l.Row(i), byte(i)); at >= 0 {
			t.Fatalf("row %d changed at %d", i, at)
		}
	}
	mustClose(t, l)
}

func TestZero(t *testing.T) {
	for _, o := range []Options{{Zero: true}, {Zero: true, Sparse: true}, {Zero: true, GoHeap: true}} {
		p := newPool(t, o)
		for round, s := range [][2]int{{4, 4096}, {4, 4096}, {2, 4096}, {6, 4096}, {1, 8192}, {9, 4096}} {
			l := get(t, p, s[0], s[1])
			if at := differs(l.Bytes(), 0); at >= 0 {
				t.Fatalf("%+v, round %d: byte %d is not zero", o, round, at)
			}
			fill(l.Bytes(), 0xff)
			mustClose(t, l)
		}
	}
}

// Many goroutines release the rows of one lease, others read; every row is released exactly once.
func TestReleaseFromManyGoroutines(t *testing.T) {
	const rows, receivers = 4096, 16
	p := newPool(t, Options{})
	for round := range 20 {
		l := get(t, p, rows, 128)
		var wg sync.WaitGroup
		var mu sync.Mutex
		doubles := 0
		for r := range receivers {
			wg.Go(func() {
				for i := r; i < rows+receivers; i += receivers {
					// Everyone also tries a row of a neighbour.
					for _, k := range []int{i % rows, (i + 1) % rows} {
						_ = l.Row(k)
						if err := l.Free([]int{k}); err != nil {
							mu.Lock()
							doubles++
							mu.Unlock()
						}
					}
				}
			})
		}
		wg.Wait()
		if p.Stats().Leases != 0 {
			t.Fatalf("round %d: rows are left", round)
		}
		if want := 2*(rows+receivers) - rows; doubles != want {
			t.Fatalf("round %d: %d refused, want %d", round, doubles, want)
		}
		mustClose(t, l)
	}
}

// Every miss cuts extents anew; the row headers are those of before.
func TestViewsOutliveExtents(t *testing.T) {
	p := newPool(t, Options{})
	seen := map[uintptr][][]byte{} // kept alive, so that no address comes twice by itself
	rng := rand.New(rand.NewPCG(1, 1))
	misses := p.Stats().Misses
	for range 500 {
		l := get(t, p, 64, 4096*(1+rng.IntN(9)))
		rows := l.Rows()
		seen[headerAddress(rows)] = rows
		if address(rows[63])-address(rows[0]) != uintptr(63*l.Stride()) {
			t.Fatal("headers of another lease")
		}
		mustClose(t, l)
	}
	if misses = p.Stats().Misses - misses; misses < 100 {
		t.Fatalf("%d misses: nothing is tested", misses)
	}
	if len(seen) > viewsSlack {
		t.Fatalf("%d sets of headers for %d misses", len(seen), misses)
	}
}
