package slab

import "testing"

func TestWorkAllocator(t *testing.T) {
	p := newPool(t, Options{Sparse: true})
	w := Work(p)
	for range 3 {
		rows := w.Get(100, 4096)
		if len(rows) != 100 {
			t.Fatalf("%d rows: %v", len(rows), w.Err())
		}
		for i, row := range rows {
			if len(row) != 4096 || cap(row) != 4096 || address(row)%rowAlign != 0 {
				t.Fatalf("row %d: %d bytes at %#x", i, len(row), address(row))
			}
			rows[i] = row[:10] // codecs do that
		}
		w.Put(rows[:50]) // and that
		if p.Stats().Leases != 0 {
			t.Fatal("not taken back")
		}
	}
	if w.Err() != nil || p.Stats().Misuses != 0 {
		t.Fatal(w.Err())
	}
}

// The five misuses of slices. Each is refused, the live leases are untouched, nothing faults.
func TestWorkMisuse(t *testing.T) {
	p, q := newPool(t, Options{Name: "p"}), newPool(t, Options{Name: "q"})
	w := Work(p)
	rows := w.Get(8, 4096)
	w.Put(rows)
	w.Put(rows)
	wantKind(t, w.Err(), ErrReleased) // double

	again := w.Get(8, 4096)
	if address(again[0]) != address(rows[0]) {
		t.Fatal("not the same memory: nothing is tested")
	}
	w.Put(rows)
	wantKind(t, w.Err(), ErrReleased) // stale, after the memory was lent again

	w.Put([][]byte{make([]byte, 64)})
	wantKind(t, w.Err(), ErrForeign)
	w.Put([][]byte{nil})
	wantKind(t, w.Err(), ErrForeign)
	w.Put(again[3:])
	wantKind(t, w.Err(), ErrInnerRow)
	w.Put(append([][]byte(nil), again...)) // a copy of the headers
	wantKind(t, w.Err(), ErrForeign)
	other := get(t, q, 8, 4096)
	w.Put(other.Rows())
	wantKind(t, w.Err(), ErrWrongPool)
	plain := get(t, p, 8, 4096)
	mustClose(t, plain)
	w.Put([][]byte{plain.e.mem()})
	wantKind(t, w.Err(), ErrReleased)

	w.Put(nil)
	w.Put([][]byte{})
	if n := p.Stats().Misuses; n != 8 {
		t.Fatalf("%d misuses, want 8", n)
	}
	if p.Stats().Leases != 1 || other.Err() != nil {
		t.Fatal("a refused Put released something")
	}
	w.Put(again)
	mustClose(t, other)
	if p.Stats().Leases != 0 {
		t.Fatal("the lease did not survive the misuse")
	}
}

func TestWorkFails(t *testing.T) {
	p := newPool(t, Options{Cap: 1 << 20})
	w := Work(p)
	for _, s := range [][2]int{{0, 1}, {1, 0}, {-1, -1}, {1, 2 << 20}} {
		if w.Get(s[0], s[1]) != nil || w.Err() == nil {
			t.Fatalf("%v gave rows", s)
		}
	}
	wantKind(t, w.Err(), ErrCap)
}

// Many shapes: what was put back is forgotten in the end.
func TestWorkForgets(t *testing.T) {
	p := newPool(t, Options{})
	w := Work(p)
	for n := 1; n < 2000; n++ {
		rows := w.Get(n%700+1, 64)
		w.Put(rows)
	}
	if len(w.lent) > 2*workSlices {
		t.Fatalf("%d slices are remembered", len(w.lent))
	}
}

// The headers of an extent that was cut serve the next; what was put back before stays refused.
func TestStaleViewsOfAnotherExtent(t *testing.T) {
	p := newPool(t, Options{})
	w := Work(p)
	stale := w.Get(8, 4096)
	w.Put(stale)
	rows := w.Get(8, 8192)
	if headerAddress(rows) != headerAddress(stale) {
		t.Fatal("other headers: nothing is tested")
	}
	w.Put(stale)
	wantKind(t, w.Err(), ErrReleased)
	if p.Stats().Leases != 1 {
		t.Fatal("a stale Put ended a lease")
	}
	w.Put(rows)
}
