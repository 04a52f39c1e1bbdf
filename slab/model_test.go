package slab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// check looks at every structure of the pool: gaps, accounts, bins, and the bound.
func check(tb testing.TB, p *Pool) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var inUse, freeDirty int64
	lent, filed := 0, 0
	for _, a := range p.arenas {
		offset, extents := 0, 0
		var prev *extent
		for e := a.first; e != nil; e = e.next {
			if e.offset != offset || e.length <= 0 || e.length%p.granule != 0 || e.prev != prev || e.arena != a {
				tb.Fatalf("extent at %d (length %d) does not join at %d", e.offset, e.length, offset)
			}
			if e.dirty < 0 || e.dirty > e.length {
				tb.Fatalf("extent of %d bytes with %d dirty", e.length, e.dirty)
			}
			switch e.state {
			case used:
				lent++
				inUse += int64(e.account)
			case free:
				freeDirty += int64(e.dirty)
			}
			if e.filed {
				filed++
			}
			offset, prev = offset+e.length, e
			extents++
		}
		if offset != a.frontier || a.tail != prev || extents != a.extents {
			tb.Fatalf("extents end at %d, frontier at %d", offset, a.frontier)
		}
	}
	b := &p.budget
	if inUse != b.inUse || freeDirty != b.freeDirty || lent != p.live {
		tb.Fatalf("accounts: in use %d/%d, free dirty %d/%d, lent %d/%d", inUse, b.inUse, freeDirty,
			b.freeDirty, lent, p.live)
	}
	if b.reserved != 0 {
		tb.Fatalf("%d bytes are reserved for nobody", b.reserved)
	}
	for length, bin := range p.bins {
		n := 0
		for e := bin.head; e != nil; e = e.binNext {
			if !e.filed || e.state != free || e.length != length || e.bin != bin {
				tb.Fatalf("a bin of %d holds an extent of %d in state %d", length, e.length, e.state)
			}
			n++
		}
		filed -= n
	}
	if filed != 0 {
		tb.Fatalf("%d filed extents are in no bin", filed)
	}
	if p.faults.Load() == 0 && b.inUse+b.freeDirty > b.peak() {
		tb.Fatalf("bound: %d in use + %d free dirty > peak %d", b.inUse, b.freeDirty, b.peak())
	}
	if b.limit != 0 && !p.o.Sparse && b.inUse > b.limit {
		tb.Fatalf("%d in use over the cap of %d", b.inUse, b.limit)
	}
}

// checkResident asks the kernel what really is in RAM. slack is for what a sparse pool does not
// know yet.
func checkResident(tb testing.TB, p *Pool, slack int64) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.memory.whole() || p.o.HugePages == Advise || p.faults.Load() != 0 {
		return
	}
	var resident int64
	for _, a := range p.arenas {
		n, err := p.memory.resident(a.mem[:a.frontier])
		if err != nil {
			return // protected pages of a faulty memory
		}
		resident += n
	}
	if most := p.budget.peak() + slack; resident > most {
		tb.Fatalf("%d bytes are resident, the peak of the window is %d", resident, most)
	}
}

// A modelLease is what the model knows of a lease: the pattern in each of its rows.
type modelLease struct {
	lease    *Lease
	pattern  byte
	rows     int
	rowSize  int
	released []bool
}

// model drives a pool with operations read from bytes, and compares it with what it must be: no
// row may change while its lease has it, whatever the others do.
type model struct {
	tb      testing.TB
	p       *Pool
	now     time.Duration
	live    []*modelLease
	stale   []*Lease
	next    byte
	touched bool // all bytes of every lease are written
}

func newModel(tb testing.TB, o Options) *model {
	m := &model{tb: tb, touched: !o.Sparse}
	o.clock, o.alarm = func() time.Duration { return m.now }, noAlarm{}
	p, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	m.p = p
	return m
}

// paint marks the ends and some of the middle of each row; all of it for small ones.
func (l *modelLease) paint() {
	for i := range l.rows {
		row := l.lease.Row(i)
		mark := l.mark(i)
		if len(row) <= 256 {
			fill(row, mark)
			continue
		}
		for at := 0; at < len(row); at += pageSize {
			row[at] = mark
		}
		row[len(row)-1] = mark
	}
}

func (l *modelLease) mark(i int) byte { return l.pattern + byte(i)*7 }

func (l *modelLease) verify(tb testing.TB) {
	for i := range l.rows {
		row := l.lease.Row(i)
		if l.released[i] {
			if row != nil {
				tb.Fatalf("released row %d is still there", i)
			}
			continue
		}
		if len(row) != l.rowSize {
			tb.Fatalf("row %d has %d bytes, want %d", i, len(row), l.rowSize)
		}
		for at := 0; at < len(row); at += pageSize {
			if row[at] != l.mark(i) {
				tb.Fatalf("aliasing: byte %d of row %d is %#x, want %#x", at, i, row[at], l.mark(i))
			}
		}
		if row[len(row)-1] != l.mark(i) {
			tb.Fatalf("aliasing: the end of row %d is %#x", i, row[len(row)-1])
		}
	}
}

var modelSizes = []int{1, 64, 100, 320, 2048, 4096, 5000, 8192, 65536, 100_000, 1 << 20}

func (m *model) get(rows, size int) {
	l, err := m.p.Get(rows, size)
	if err != nil {
		if m.p.o.Cap == 0 {
			m.tb.Fatal(err)
		}
		wantKind(m.tb, err, ErrCap)
		return
	}
	m.adopt(l, rows, size)
}

func (m *model) adopt(l *Lease, rows, size int) {
	m.next += 31
	x := &modelLease{lease: l, pattern: m.next, rows: rows, rowSize: size, released: make([]bool, rows)}
	if m.p.o.Zero && size > 0 {
		if at := differs(l.Bytes(), 0); at >= 0 {
			m.tb.Fatalf("byte %d is not zero", at)
		}
	}
	x.paint()
	m.live = append(m.live, x)
}

func (m *model) end(i int) {
	x := m.live[i]
	x.verify(m.tb)
	mustClose(m.tb, x.lease)
	m.live = append(m.live[:i], m.live[i+1:]...)
	m.stale = append(m.stale, x.lease)
	if len(m.stale) > 16 {
		m.stale = m.stale[1:]
	}
}

func (m *model) release(i int, r *bytes.Reader) {
	x := m.live[i]
	x.verify(m.tb)
	var idx []int
	for i := range x.rows {
		b, _ := r.ReadByte()
		if b%2 == 0 && !x.released[i] {
			idx = append(idx, i)
			x.released[i] = true
		}
	}
	if len(idx) == 0 {
		return
	}
	if err := x.lease.Free(idx); err != nil {
		m.tb.Fatal(err)
	}
	wantKind(m.tb, x.lease.Free(idx[:1]), ErrReleased)
	for _, done := range x.released {
		if !done {
			return
		}
	}
	m.end(i)
}

func (m *model) read(n int) {
	data := bytes.Repeat([]byte{m.next + 31}, n)
	limit := 1 << 20
	l, err := m.p.ReadFrom(onlyReader{bytes.NewReader(data)}, limit)
	if err != nil {
		wantKind(m.tb, err, ErrCap)
		return
	}
	if !bytes.Equal(l.Bytes(), data) {
		m.tb.Fatal("what was read is not what was given")
	}
	if n == 0 {
		mustClose(m.tb, l)
		return
	}
	m.next += 31
	m.live = append(m.live, &modelLease{lease: l, pattern: m.next, rows: 1, rowSize: n,
		released: make([]bool, 1)})
}

// step does one operation; false at the end of the bytes.
func (m *model) step(r *bytes.Reader) bool {
	op, err := r.ReadByte()
	if err != nil {
		return false
	}
	arg, _ := r.ReadByte()
	at := 0
	if len(m.live) > 0 {
		at = int(arg) % len(m.live)
	}
	switch op % 10 {
	case 0, 1, 2:
		m.get(1+int(arg>>4), modelSizes[int(arg)%len(modelSizes)])
	case 3, 4:
		if len(m.live) > 0 {
			m.end(at)
		}
	case 5:
		if len(m.live) > 0 {
			m.release(at, r)
		}
	case 6:
		m.now += time.Duration(arg) * m.p.budget.step / 16
		m.p.tick()
	case 7:
		m.read(int(arg) * 997)
	case 8:
		if len(m.stale) > 0 {
			wantKind(m.tb, m.stale[int(arg)%len(m.stale)].Close(), ErrReleased)
		}
	case 9:
		m.maintain(arg)
	}
	check(m.tb, m.p)
	return true
}

func (m *model) maintain(arg byte) {
	switch arg % 4 {
	case 0:
		m.p.Trim()
		check(m.tb, m.p)
		if m.p.o.Debug&Guard == 0 && m.p.Stats().FreeDirty != 0 {
			m.tb.Fatal("Trim left dirty memory")
		}
	case 1:
		m.p.Stats()
	default:
		for _, x := range m.live {
			x.verify(m.tb)
		}
	}
}

func (m *model) finish() {
	for len(m.live) > 0 {
		m.end(len(m.live) - 1)
		check(m.tb, m.p)
	}
	m.now += m.p.o.Window + m.p.budget.step
	for m.p.budget.ticking {
		before := m.p.budget.freeDirty
		m.p.tick()
		if m.p.budget.freeDirty == before && before > 0 {
			m.tb.Fatalf("after the window %d bytes are still kept", before)
		}
	}
	checkResident(m.tb, m.p, 0)
	if s := m.p.Stats(); s.InUse != 0 || s.FreeDirty != 0 || s.Misuses == 0 && len(m.stale) > 99 {
		m.tb.Fatalf("at the end: %+v", s)
	}
	wantKind(m.tb, m.p.Close(), nil)
}

// onlyReader hides every other method of a reader.
type onlyReader struct {
	r interface{ Read([]byte) (int, error) }
}

func (o onlyReader) Read(b []byte) (int, error) { return o.r.Read(b) }

const modelKinds = 14

func modelOptions(kind byte) Options {
	return []Options{{}, {Sparse: true}, {Zero: true}, {Cap: 4 << 20}, {GoHeap: true},
		{Debug: Poison}, {HugePages: Advise}, {Sparse: true, Zero: true}, {Debug: Guard | Stacks},
		{GoHeap: true, Debug: Poison}, {Cap: 4 << 20, Zero: true},
		{memory: &limitedMemory{systemMemory(), 20 << 20}},
		{Sparse: true, Debug: Poison}, {Sparse: true, Debug: Guard}}[kind%modelKinds]
}

func runModel(tb testing.TB, input []byte) {
	if len(input) == 0 {
		return
	}
	m := newModel(tb, modelOptions(input[0]))
	r := bytes.NewReader(input[1:])
	for n := 0; m.step(r); n++ {
		if n%8 == 0 && m.touched {
			checkResident(tb, m.p, 0)
		}
	}
	m.finish()
}

func FuzzModel(f *testing.F) {
	for kind := range byte(modelKinds) {
		f.Add(append([]byte{kind}, randomInput(uint64(kind), 64)...))
	}
	f.Fuzz(func(t *testing.T, input []byte) { runModel(t, input) })
}

func randomInput(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:n]
}

// seedOf takes the seed of a failed run from SLAB_SEED, or a fixed one.
func seedOf(tb testing.TB, standard uint64) uint64 {
	seed := standard
	if text := os.Getenv("SLAB_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	tb.Logf("SLAB_SEED=%d", seed)
	return seed
}

func TestModel(t *testing.T) {
	rounds := modelKinds * 25
	if testing.Short() {
		rounds = modelKinds * 3
	}
	seed := seedOf(t, 1)
	for n := range uint64(rounds) {
		input := append([]byte{byte(n)}, randomInput(seed+n, 600)...)
		t.Run(fmt.Sprint(seed+n), func(t *testing.T) { runModel(t, input) })
	}
}

// Goroutines with their own leases: nobody's rows may change under them.
func TestStress(t *testing.T) {
	operations := 3000
	if testing.Short() {
		operations = 200
	}
	seed := seedOf(t, 2)
	for n, o := range []Options{{Window: 20 * time.Millisecond}, {Sparse: true, Window: 20 * time.Millisecond},
		{Cap: 8 << 20, Window: 20 * time.Millisecond}, {GoHeap: true}, {Debug: Guard | Poison | Stacks}} {
		p := newPool(t, o)
		var wg sync.WaitGroup
		for worker := range uint64(8) {
			wg.Go(func() { stress(t, p, seed+uint64(n)*100+worker, operations/(1+int(o.Debug))) })
		}
		stop := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() { watchBound(t, p, stop) })
		wg.Wait()
		close(stop)
		watch.Wait()
		check(t, p)
		if s := p.Stats(); s.Leases != 0 || s.InUse != 0 || s.Misuses != 0 {
			t.Fatalf("%+v", s)
		}
	}
}

func stress(t *testing.T, p *Pool, seed uint64, operations int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	var held []*modelLease
	for range operations {
		if len(held) < 3 && rng.IntN(2) == 0 {
			rows, size := 1+rng.IntN(16), modelSizes[rng.IntN(len(modelSizes)-1)]
			l, err := p.Get(rows, size)
			if err != nil {
				if p.o.Cap == 0 {
					t.Error(err)
				}
				continue
			}
			x := &modelLease{lease: l, pattern: byte(rng.Uint32()), rows: rows, rowSize: size,
				released: make([]bool, rows)}
			x.paint()
			held = append(held, x)
		} else if len(held) > 0 {
			i := rng.IntN(len(held))
			held[i].verify(t)
			if err := held[i].lease.Close(); err != nil {
				t.Error(err)
			}
			held = append(held[:i], held[i+1:]...)
		}
	}
	for _, x := range held {
		x.verify(t)
		if err := x.lease.Close(); err != nil {
			t.Error(err)
		}
	}
}

func watchBound(t *testing.T, p *Pool, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if s := p.Stats(); s.InUse+s.FreeDirty > s.PeakInWindow {
			t.Errorf("bound: %d + %d > %d", s.InUse, s.FreeDirty, s.PeakInWindow)
			return
		}
		time.Sleep(time.Millisecond)
	}
}
