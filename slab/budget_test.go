package slab

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// clocked makes a pool whose time the test turns.
func clocked(t *testing.T, o Options) (p *Pool, sleep func(time.Duration)) {
	now := time.Duration(0)
	o.clock, o.alarm = func() time.Duration { return now }, noAlarm{}
	p = newPool(t, o)
	return p, func(d time.Duration) {
		for end := now + d; now < end; {
			now += min(p.budget.step, end-now)
			p.tick()
		}
	}
}

// noAlarm never rings: the test calls tick.
type noAlarm struct{}

func (noAlarm) Reset(time.Duration) bool { return false }
func (noAlarm) Stop() bool               { return false }

func touch(l *Lease) *Lease {
	for i := range l.shape.rows {
		fill(l.Row(i), 1)
	}
	return l
}

func wantStats(t *testing.T, p *Pool, inUse, freeDirty, peak int64) {
	t.Helper()
	s := p.Stats()
	if s.InUse != inUse || s.FreeDirty != freeDirty || s.PeakInWindow != peak {
		t.Fatalf("in use %d, free dirty %d, peak %d; want %d, %d, %d", s.InUse, s.FreeDirty,
			s.PeakInWindow, inUse, freeDirty, peak)
	}
}

func TestWindow(t *testing.T) {
	const mib = 1 << 20
	p, sleep := clocked(t, Options{})
	a, b := touch(get(t, p, 1, 4*mib)), touch(get(t, p, 1, 2*mib))
	wantStats(t, p, 6*mib, 0, 6*mib)
	mustClose(t, a)
	wantStats(t, p, 2*mib, 4*mib, 6*mib)
	sleep(9 * time.Second)
	wantStats(t, p, 2*mib, 4*mib, 6*mib)
	sleep(time.Second)
	wantStats(t, p, 2*mib, 0, 2*mib)
	if p.budget.ticking {
		t.Fatal("the timer runs without free dirty memory")
	}
	mustClose(t, b)
	if !p.budget.ticking {
		t.Fatal("the timer does not run with free dirty memory")
	}
	sleep(DefaultWindow)
	wantStats(t, p, 0, 0, 0)
	if s := p.Stats(); s.Mapped != 0 || s.PurgeBytes != 6*mib || s.GrowBytes != 6*mib {
		t.Fatalf("%+v", s)
	}
	checkResident(t, p, 0)
}

// A peak that ran out while the timer was late binds a Get that reuses warm memory only.
func TestReuseAfterALateTick(t *testing.T) {
	const mib = 1 << 20
	now := time.Duration(0)
	p := newPool(t, Options{clock: func() time.Duration { return now }, alarm: noAlarm{}})
	mustClose(t, touch(get(t, p, 1, 4*mib)))
	now += 2 * DefaultWindow
	l := touch(get(t, p, 1, mib))
	check(t, p)
	wantStats(t, p, mib, 0, mib)
	mustClose(t, l)
}

// Growth is what is missing, whatever sizes went before.
func TestGrowthIsTheDeficit(t *testing.T) {
	const mib = 1 << 20
	p, _ := clocked(t, Options{})
	mustClose(t, touch(get(t, p, 1, 4*mib)))
	l := touch(get(t, p, 1, 6*mib))
	if s := p.Stats(); s.GrowBytes != 6*mib || s.Mapped != 6*mib || s.PurgeBytes != 0 {
		t.Fatalf("growing from 4 to 6 MiB: %+v", s)
	}
	mustClose(t, l)
	small := touch(get(t, p, 1, 5*mib))
	wantStats(t, p, 5*mib, mib, 6*mib)
	mustClose(t, small)
	check(t, p)
	checkResident(t, p, 0)
}

// 128 sizes one after the other, never more than 32 MiB at once: what is kept stays under the peak.
func TestAdversarialSizes(t *testing.T) {
	p, sleep := clocked(t, Options{})
	for n := range 512 {
		size := 64 << 10 * (1 + (n*37)%4)
		rows := 1 + (n*53)%128
		l, err := p.Get(rows, size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			l.Row(i)[0] = 1
		}
		if n%16 == 0 {
			checkResident(t, p, 0)
		}
		check(t, p)
		mustClose(t, l)
		sleep(20 * time.Millisecond)
	}
}

func TestSparse(t *testing.T) {
	p, sleep := clocked(t, Options{Sparse: true})
	l := get(t, p, 1024, 4096)
	s := p.Stats()
	if s.InUse != 0 || s.AskedUntouched != 4<<20 {
		t.Fatalf("untouched: %+v", s)
	}
	for i := 100; i < 228; i++ {
		l.Row(i)[0] = 1
	}
	if s = p.Stats(); s.InUse != 128*4096 || s.AskedUntouched != 4<<20-128*4096 {
		t.Fatalf("touched: %+v", s)
	}
	mustClose(t, l)
	wantStats(t, p, 0, 128*4096, 128*4096)
	l = get(t, p, 1024, 4096)
	wantStats(t, p, 128*4096, 0, 128*4096)
	if p.Stats().Misses != 1 {
		t.Fatal("the second Get was not warm")
	}
	mustClose(t, l)
	// Half of it for another shape: the estimate is measured, not guessed.
	l = get(t, p, 128, 4096)
	wantStats(t, p, 28*4096, 100*4096, 128*4096)
	mustClose(t, l)
	sleep(2 * DefaultWindow)
	wantStats(t, p, 0, 0, 0)
	checkResident(t, p, 0)
}

// A sparse lease that dirties more than its predecessor pushes out what the budget forbids.
func TestSparseGrows(t *testing.T) {
	p, sleep := clocked(t, Options{Sparse: true})
	a, b := get(t, p, 256, 4096), get(t, p, 512, 4096)
	a.Row(0)[0], b.Row(0)[0] = 1, 1
	wantStats(t, p, 8192, 0, 8192) // measures both; else the peak would not know of b yet
	mustClose(t, a)
	mustClose(t, b)
	wantStats(t, p, 0, 8192, 8192)
	sleep(2 * time.Second)
	a = get(t, p, 256, 4096)
	for i := range 200 {
		a.Row(i)[0] = 1
	}
	mustClose(t, a)
	s := p.Stats()
	if s.FreeDirty > s.PeakInWindow || s.PeakInWindow != 200*4096 {
		t.Fatalf("%+v", s)
	}
	check(t, p)
	checkResident(t, p, 0)
}

// Past a limit neighbours are joined, and everything still adds up.
func TestJoinAll(t *testing.T) {
	p, _ := clocked(t, Options{})
	var held []*Lease
	for n := range 3 * extentsSlack {
		held = append(held, get(t, p, 1, 1+n%2*4096))
	}
	for _, l := range held {
		mustClose(t, l)
	}
	if n := p.arenas[0].extents; n < extentsSlack {
		t.Fatalf("%d extents: nothing is tested", n)
	}
	mustClose(t, get(t, p, 1, 5*4096))
	if n := p.arenas[0].extents; n > 8 {
		t.Fatalf("%d extents are left", n)
	}
	check(t, p)
}

func TestTrim(t *testing.T) {
	p := newPool(t, Options{})
	mustClose(t, touch(get(t, p, 1, 3<<20)))
	if n := p.Trim(); n != 3<<20 {
		t.Fatalf("Trim gave back %d", n)
	}
	if s := p.Stats(); s.FreeDirty != 0 || s.Mapped != 0 {
		t.Fatalf("%+v", s)
	}
	checkResident(t, p, 0)
}

// Idle pools give everything back by themselves, and say so.
func TestIdle(t *testing.T) {
	idle := make(chan struct{})
	p := newPool(t, Options{Window: 50 * time.Millisecond, OnIdle: func() { close(idle) }})
	mustClose(t, touch(get(t, p, 1, 100<<20))) // more than one tick gives back
	<-idle
	wantStats(t, p, 0, 0, 0)
}

func TestCap(t *testing.T) {
	const mib = 1 << 20
	p := newPool(t, Options{Cap: 4 * mib, Name: "capped"})
	l := get(t, p, 3, mib)
	_, err := p.Get(2, mib)
	wantKind(t, err, ErrCap)
	var e *Error
	if !errors.As(err, &e) || e.Bytes != 2*mib || e.InUse != 3*mib || e.Cap != 4*mib {
		t.Fatalf("numbers: %+v", e)
	}
	for _, number := range []string{"2097152", "3145728", "4194304", "capped"} {
		if !strings.Contains(err.Error(), number) {
			t.Fatalf("%s is not in %q", number, err)
		}
	}
	_, err = p.GetContext(context.Background(), 5, mib)
	wantKind(t, err, ErrCap) // never fits: no waiting
	mustClose(t, get(t, p, 1, mib))
	mustClose(t, l)
	// Free dirty memory of other sizes must not keep the cap from being used.
	l = touch(get(t, p, 4, mib))
	check(t, p)
	checkResident(t, p, 0)
	mustClose(t, l)
}

func TestWaiting(t *testing.T) {
	const mib = 1 << 20
	p := newPool(t, Options{Cap: 4 * mib})
	l := get(t, p, 4, mib)
	order := make(chan int, 3)
	for i := range 3 {
		go func() {
			l, err := p.GetContext(context.Background(), 2, mib)
			if err != nil {
				t.Error(err)
			}
			order <- i
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		waitFor(t, func() bool { return p.Stats().Waiting == i+1 })
	}
	mustClose(t, l)
	seen := 0
	for range 3 {
		seen |= 1 << <-order
	}
	if seen != 7 {
		t.Fatalf("served: %b", seen)
	}
	s := p.Stats()
	if s.Waits != 3 || s.WaitTime <= 0 || s.Waiting != 0 {
		t.Fatalf("%+v", s)
	}
	check(t, p)
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing happened for a minute")
		}
	}
}

// A small request does not overtake a large one that waits.
func TestFirstComeFirstServed(t *testing.T) {
	const mib = 1 << 20
	p := newPool(t, Options{Cap: 4 * mib})
	a, b := get(t, p, 2, mib), get(t, p, 1, mib)
	large := make(chan *Lease)
	go func() {
		l, _ := p.GetContext(context.Background(), 3, mib)
		large <- l
	}()
	waitFor(t, func() bool { return p.Stats().Waiting == 1 })
	small := make(chan *Lease)
	go func() {
		l, _ := p.GetContext(context.Background(), 1, mib)
		small <- l
	}()
	waitFor(t, func() bool { return p.Stats().Waiting == 2 })
	mustClose(t, a)
	mustClose(t, <-large)
	mustClose(t, <-small)
	mustClose(t, b)
	check(t, p)
}

func TestContext(t *testing.T) {
	const mib = 1 << 20
	p := newPool(t, Options{Cap: 4 * mib})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.GetContext(ctx, 1, mib)
	wantKind(t, err, ErrDone) // even with room
	wantKind(t, err, context.Canceled)
	if !strings.Contains(err.Error(), "1048576") {
		t.Fatal(err)
	}
	l := get(t, p, 4, mib)
	ctx, cancel = context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := p.GetContext(ctx, 3, mib)
		done <- err
	}()
	waitFor(t, func() bool { return p.Stats().Waiting == 1 })
	behind := make(chan *Lease)
	go func() {
		l, err := p.GetContext(context.Background(), 1, mib)
		if err != nil {
			t.Error(err)
		}
		behind <- l
	}()
	waitFor(t, func() bool { return p.Stats().Waiting == 2 })
	cancel()
	err = <-done
	wantKind(t, err, ErrCap)
	wantKind(t, err, context.Canceled)
	mustClose(t, l)
	mustClose(t, <-behind)
	check(t, p)
}

func TestCloseWakesWaiters(t *testing.T) {
	p, err := New(Options{Cap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l := get(t, p, 1, 1<<20)
	done := make(chan error)
	go func() {
		_, err := p.GetContext(context.Background(), 1, 1<<20)
		done <- err
	}()
	waitFor(t, func() bool { return p.Stats().Waiting == 1 })
	wantKind(t, p.Close(), ErrLive)
	wantKind(t, <-done, ErrClosed)
	mustClose(t, l)
	check(t, p)
}

func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	p := newPool(t, Options{})
	untie, err := TieMemoryLimit(1<<30, p)
	if err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Fatalf("limit %d", got)
	}
	l := get(t, p, 1, 600<<20) // asked for, not touched: it counts all the same
	if got := debug.SetMemoryLimit(-1); got != 1<<30-600<<20 {
		t.Fatalf("limit %d", got)
	}
	mustClose(t, l)
	p.Trim()
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Fatalf("limit %d after Trim", got)
	}
	untie()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Fatalf("limit %d after untie, %d before", got, before)
	}
	_, err = TieMemoryLimit(-1, p)
	wantKind(t, err, ErrOptions)
	if untie, err := TieMemoryLimit(0, p); err == nil { // a machine with a cgroup limit
		untie()
	} else if !errors.Is(err, errNoLimit) && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// Captured from /proc/self/cgroup: Debian 12 with systemd, a container with version 1 and 2.
func TestParseCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/user.slice/user-1000.slice/session-3.scope\n": "/user.slice/user-1000.slice/session-3.scope",
		"12:memory:/docker/x\n1:name=systemd:/\n0::/\n":    "/",
		"":              "/",
		"0::/../../x\n": "/x",
	} {
		if got := parseCgroup(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if parseLimit("max\n") < 1<<62 || parseLimit("536870912\n") != 512<<20 {
		t.Error("memory.max")
	}
}
