package slab

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

type oddReader struct {
	n   int
	err error
}

func (r oddReader) Read([]byte) (int, error) { return r.n, r.err }

func TestReadFrom(t *testing.T) {
	p := newPool(t, Options{Name: "in"})
	for _, n := range []int{0, 1, 4096, 4097, 1 << 20, 1<<20 + 1, 3 << 20} {
		data := bytes.Repeat([]byte{7}, n)
		for name, r := range map[string]interface{ Read([]byte) (int, error) }{
			"known length": bytes.NewReader(data), "unknown": onlyReader{bytes.NewReader(data)},
		} {
			l, err := p.ReadFrom(r, 3<<20)
			if err != nil {
				t.Fatal(n, name, err)
			}
			if !bytes.Equal(l.Bytes(), data) {
				t.Fatalf("%d bytes, %s: got %d", n, name, len(l.Bytes()))
			}
			if s := p.Stats(); s.InUse != int64(max(roundUp(n, pageSize), pageSize)) {
				t.Fatalf("%d bytes count for %d", n, s.InUse)
			}
			check(t, p)
			mustClose(t, l)
			check(t, p)
		}
	}
}

func TestReadFromFails(t *testing.T) {
	boom := errors.New("boom")
	p := newPool(t, Options{})
	for _, c := range []struct {
		r     interface{ Read([]byte) (int, error) }
		limit int
		want  error
	}{
		{onlyReader{bytes.NewReader(make([]byte, 101))}, 100, ErrTooLong},
		{bytes.NewReader(make([]byte, 101)), 100, ErrTooLong},
		{oddReader{0, boom}, 100, boom},
		{oddReader{-1, nil}, 100, errRead},
		{oddReader{1 << 30, nil}, 100, errRead},
		{oddReader{0, nil}, 100, errRead},
		{bytes.NewReader(nil), 0, ErrSize},
		{bytes.NewReader(nil), -1, ErrSize},
	} {
		_, err := p.ReadFrom(c.r, c.limit)
		wantKind(t, err, c.want)
		if p.Stats().Leases != 0 {
			t.Fatal("a failed read left a lease")
		}
		check(t, p)
	}
	small := newPool(t, Options{Cap: 2 << 20})
	_, err := small.ReadFrom(onlyReader{bytes.NewReader(make([]byte, 3<<20))}, 4<<20)
	wantKind(t, err, ErrCap)
	check(t, small)
	if l, err := small.ReadFrom(onlyReader{bytes.NewReader(make([]byte, 1<<20))}, 64<<20); err != nil {
		t.Fatal("a limit above the cap is no harm:", err)
	} else {
		mustClose(t, l)
	}
}

// A reader that fails exactly at the limit, or never ends there.
func TestReadAtLimit(t *testing.T) {
	p := newPool(t, Options{})
	for _, tail := range []oddReader{{0, errors.New("late")}, {0, nil}} {
		r := &twoReaders{first: bytes.NewReader(make([]byte, 100)), then: tail}
		_, err := p.ReadFrom(r, 100)
		wantKind(t, err, errRead)
	}
}

type twoReaders struct {
	first *bytes.Reader
	then  oddReader
}

func (r *twoReaders) Read(b []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(b)
	}
	return r.then.Read(b)
}

func TestWriteToAndReader(t *testing.T) {
	p := newPool(t, Options{})
	for _, size := range []int{64, 100} {
		l := get(t, p, 10, size)
		var want []byte
		for i, row := range l.Rows() {
			fill(row, byte(i))
			want = append(want, row...)
		}
		var out bytes.Buffer
		n, err := l.WriteTo(&out)
		if err != nil || n != int64(len(want)) || !bytes.Equal(out.Bytes(), want) {
			t.Fatalf("WriteTo: %d bytes, %v", n, err)
		}
		out.Reset()
		if _, err := out.ReadFrom(l.Reader()); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Fatal("Reader:", err)
		}
		if _, err := l.WriteTo(brokenWriter{}); err == nil {
			t.Fatal("the writer's error is lost")
		}
		if err := l.FreeRow(3); err != nil {
			t.Fatal(err)
		}
		_, err = out.ReadFrom(l.Reader())
		wantKind(t, err, ErrReleased)
		mustClose(t, l)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("broken") }
