package slab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

//go:noinline
func takeHere(t testing.TB, p *Pool, rows, size int) *Lease { return get(t, p, rows, size) }

//go:noinline
func releaseHere(t testing.TB, l *Lease) { mustClose(t, l) }

func TestPoisonFindsWriteAfterRelease(t *testing.T) {
	var seen error
	for _, goHeap := range []bool{false, true} {
		p := newPool(t, Options{Debug: Poison | Stacks, GoHeap: goHeap,
			OnMisuse: func(err error) { seen = err }})
		l := takeHere(t, p, 4, 100)
		row := l.Row(2)
		releaseHere(t, l)
		row[5] = 1
		l = get(t, p, 4, 100)
		wantKind(t, seen, ErrCorrupt)
		for _, name := range []string{"takeHere", "releaseHere"} {
			if !strings.Contains(seen.Error(), name) {
				t.Fatalf("%s is not in %v", name, seen)
			}
		}
		mustClose(t, l)
		seen = nil
		l = get(t, p, 4, 100)
		mustClose(t, l)
		if seen != nil {
			t.Fatal("reported twice:", seen)
		}
	}
}

// Cut memory is checked too.
func TestPoisonBeforeCut(t *testing.T) {
	var seen error
	p := newPool(t, Options{Debug: Poison, OnMisuse: func(err error) { seen = err }})
	l := get(t, p, 1, 16<<10)
	row := l.Row(0)
	mustClose(t, l)
	row[9000] = 1
	mustClose(t, get(t, p, 1, 64))
	wantKind(t, seen, ErrCorrupt)
}

func TestCanary(t *testing.T) {
	p := newPool(t, Options{Debug: Poison | Stacks, OnMisuse: func(error) {}})
	l := takeHere(t, p, 4, 100)
	l.e.mem()[l.Stride()+100] = 0 // one byte behind row 1
	err := l.Close()
	wantKind(t, err, ErrCorrupt)
	var e *Error
	if !errors.As(err, &e) || e.Row != 1 || !strings.Contains(err.Error(), "takeHere") {
		t.Fatal(err)
	}
	if p.Stats().Leases != 0 {
		t.Fatal("the lease must end all the same")
	}
	l = get(t, p, 4, 64)
	l.e.mem()[l.Stride()*2+64] = 0
	if err := l.FreeRow(1); err != nil {
		t.Fatal(err)
	}
	wantKind(t, l.FreeRow(2), ErrCorrupt)
	_ = l.Close()
}

func TestPoisonOfReleasedRows(t *testing.T) {
	p := newPool(t, Options{Debug: Poison, OnMisuse: func(error) {}})
	l := get(t, p, 4, 100)
	row := l.Row(1)
	if err := l.FreeRow(1); err != nil {
		t.Fatal(err)
	}
	if differs(row, PoisonByte) >= 0 {
		t.Fatal("a released row is not poisoned")
	}
	row[7] = 1
	wantKind(t, l.Close(), ErrCorrupt)
}

// A panic of the debug modes leaves nothing locked.
func TestPanicLocksNothing(t *testing.T) {
	p := newPool(t, Options{Debug: Poison, Panic: true})
	panics := func(f func()) {
		t.Helper()
		defer func() {
			err, _ := recover().(error)
			wantKind(t, err, ErrCorrupt)
		}()
		f()
	}
	l := get(t, p, 2, 100)
	l.e.mem()[100] = 0
	panics(func() { _ = l.Close() })
	l = get(t, p, 1, 16<<10)
	row := l.Row(0)
	mustClose(t, l)
	row[3] = 0
	panics(func() { _, _ = p.Get(1, 64) })
	l = get(t, p, 1, 16<<10)
	mustClose(t, l)
	check(t, p)
}

func TestStacks(t *testing.T) {
	p := newPool(t, Options{Debug: Stacks, Name: "stacked"})
	old := takeHere(t, p, 1, 64)
	l := takeHere(t, p, 2, 128)
	list := p.Live()
	if len(list) != 2 || list[1].Rows*list[0].Rows != 2 || !strings.Contains(list[0].Stack, "takeHere") {
		t.Fatalf("%+v", list)
	}
	if text := Explain(address(l.Row(1)) + 5); !strings.Contains(text, "row 1, byte 5") ||
		!strings.Contains(text, "lent") || !strings.Contains(text, "takeHere") {
		t.Fatal(text)
	}
	gone := address(l.Row(1))
	releaseHere(t, l)
	if text := Explain(gone); !strings.Contains(text, "released memory") || !strings.Contains(text, "releaseHere") {
		t.Fatal(text)
	}
	err := l.Close()
	wantKind(t, err, ErrReleased)
	if !strings.Contains(err.Error(), "releaseHere") {
		t.Fatal(err)
	}
	mustClose(t, old)
	if Explain(12345) != "" {
		t.Fatal("an address of nobody is explained")
	}
}

func TestLostLease(t *testing.T) {
	p := newPool(t, Options{Debug: Stacks})
	mustClose(t, takeHere(t, p, 1, 64))
	func() { takeHere(t, p, 1, 64) }()
	waitFor(t, func() bool { runtime.GC(); return p.Stats().Leaked > 0 })
	if n := p.Stats().Leaked; n != 1 {
		t.Fatalf("%d leaks, want 1", n)
	}
}

func TestParseDebug(t *testing.T) {
	for text, want := range map[string]DebugMode{"": 0, "guard": Guard, " Poison, stacks ": Poison | Stacks,
		"all": Guard | Poison | Stacks, "nonsense,guard": Guard} {
		if got := parseDebug(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func needGuard(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: memory can be protected on Linux only")
	}
}

// faults tells whether reading b faults.
func faults(b []byte) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	sink += b[0]
	return false
}

var sink byte

func TestGuard(t *testing.T) {
	needGuard(t)
	for _, mode := range []DebugMode{Guard, Guard | Poison, Guard | Stacks} {
		p := newPool(t, Options{Debug: mode})
		for _, size := range []int{1, 100, 4096, 5000, 65536} {
			l := touch(get(t, p, 4, size))
			rows := append([][]byte(nil), l.Rows()...)
			if faults(rows[3]) {
				t.Fatal("live memory faults")
			}
			if size%pageSize == 0 {
				if err := l.Free([]int{1}); err != nil {
					t.Fatal(err)
				}
				if !faults(rows[1]) || faults(rows[2]) {
					t.Fatalf("rows of %d bytes: a released row must fault, others not", size)
				}
			}
			mustClose(t, l)
			for i, row := range rows {
				if !faults(row) {
					t.Fatalf("mode %d: row %d of %d bytes can be read after release", mode, i, size)
				}
			}
			check(t, p)
		}
		if s := p.Stats(); s.FreeDirty != 0 {
			t.Fatalf("protected memory is resident: %+v", s)
		}
	}
}

// After enough others an extent is used again; addresses do not run out.
func TestQuarantineEnds(t *testing.T) {
	needGuard(t)
	p := newPool(t, Options{Debug: Guard | Stacks})
	first := address(get(t, p, 1, 4096).Row(0))
	mustClose(t, get(t, p, 1, 4096))
	for range 2*quarantineExtents + 10 {
		mustClose(t, touch(get(t, p, 1, 4096)))
	}
	if n := p.Stats().Mapped; n > (quarantineExtents+64)*2*int64(pageSize) {
		t.Fatalf("%d bytes are mapped", n)
	}
	check(t, p)
	_ = first
}

// crasher is a program that uses memory after its release, in a goroutine that knows of nothing.
func TestCrashNamesTheStacks(t *testing.T) {
	needGuard(t)
	if os.Getenv("SLAB_TEST_CRASH") == "1" {
		crash(t)
		return
	}
	for _, variable := range []string{"SLAB_DEBUG=guard,stacks", "SLAB_DEBUG=all"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestCrashNamesTheStacks$")
		cmd.Env = append(os.Environ(), "SLAB_TEST_CRASH=1", variable)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("a use after release did not crash:\n%s", out)
		}
		for _, want := range []string{"fault", "use after release", "row 2", "pool \"crashing\"",
			"allocated at:", "takeHere", "released at:", "releaseHere"} {
			if !strings.Contains(string(out), want) {
				t.Fatalf("%s: %q is not in\n%s", variable, want, out)
			}
		}
	}
}

func crash(t *testing.T) {
	p, err := New(Options{Name: "crashing"})
	if err != nil {
		t.Fatal(err)
	}
	l := takeHere(t, p, 4, 4096)
	row := l.Row(2)
	releaseHere(t, l)
	done := make(chan byte)
	go func() {
		x := row[17] // a load of its own: a channel would pass the address on
		done <- x + 1
	}()
	sink += <-done
}

// Crash messages of Go 1.26: a fault with an address, and a crash without.
func TestExplainCrash(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: there is a crash log on Linux only")
	}
	slot := make([]byte, 8<<10)
	copy(slot, fmt.Sprintf("%x %x %d pool %q, more", 0x7000, 0x9000, 4096, "x"))
	log := append(make([]byte, 8<<10), slot...)
	text := "unexpected fault address 0x8010\nfatal error: fault\n[signal SIGSEGV: segmentation " +
		"violation code=0x2 addr=0x8010 pc=0x4d0f2e]\n"
	if got := explain(text, log); !strings.Contains(got, `byte 16 of row 1 of a lease of pool "x", more`) {
		t.Fatal(got)
	}
	for _, other := range []string{"", "panic: boom", "addr=0x9000 pc=0x1", "addr=0xffffffffffffffffff "} {
		if got := explain(other, log); got != "" {
			t.Fatalf("%q: %q", other, got)
		}
	}
}
