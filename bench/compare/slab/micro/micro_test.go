// Package micro compares pools call by call. It needs the peer's package, so bench/compare/slab/run.py --micro
// runs it.
package micro

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/highwater-rs/highwater/slab"
	"github.com/klauspost/reedsolomon"
	"peer.example/row"
)

var shapes = []struct {
	name       string
	rows, size int
}{{"1x1MiB", 1, 1 << 20}, {"16384x2KiB", 16384, 2048}, {"32768x4KiB", 32768, 4096}}

// chunked runs f so that one preemption cannot spoil everything: it reports the fastest and the
// median chunk of a hundred calls too.
func chunked(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	var chunks []float64
	for b.Loop() {
		begun := time.Now()
		for range 100 {
			f()
		}
		chunks = append(chunks, float64(time.Since(begun).Nanoseconds())/100)
	}
	slices.Sort(chunks)
	b.ReportMetric(chunks[0], "min-ns/call")
	b.ReportMetric(chunks[len(chunks)/2], "median-ns/call")
}

func newPool(b *testing.B) *slab.Pool {
	p, err := slab.New(slab.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

// GetPut is one warm lease and its end.
func BenchmarkGetPut(b *testing.B) {
	for _, s := range shapes {
		b.Run("shape="+s.name+"/pool=slab", func(b *testing.B) {
			p := newPool(b)
			chunked(b, func() {
				l, err := p.Get(s.rows, s.size)
				if err != nil || l.Close() != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run("shape="+s.name+"/pool=slab-rows", func(b *testing.B) {
			p := newPool(b)
			chunked(b, func() {
				l, err := p.Get(s.rows, s.size)
				if err != nil || len(l.Rows()) != s.rows || l.Close() != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run("shape="+s.name+"/pool=sync.Pool", func(b *testing.B) {
			p := sync.Pool{New: func() any {
				rows := reedsolomon.AllocAligned(s.rows, s.size)
				return &rows
			}}
			chunked(b, func() {
				rows := p.Get().(*[][]byte)
				p.Put(rows)
			})
		})
		b.Run("shape="+s.name+"/pool=row", func(b *testing.B) {
			p := row.NewPool(s.size, s.rows)
			chunked(b, func() { p.Put(p.Get(s.rows, s.size)) })
		})
	}
}

// Release is 16,384 rows that 100 receivers release in shuffled order; per row.
func BenchmarkRelease(b *testing.B) {
	const rows, receivers = 16384, 100
	order := rand.New(rand.NewPCG(1, 2)).Perm(rows)
	for _, by := range []string{"index", "slice"} {
		b.Run("by="+by+"/pool=slab", func(b *testing.B) {
			p := newPool(b)
			shuffled := make([][]byte, rows)
			var each []float64
			for b.Loop() {
				l, err := p.Get(rows, 2048)
				if err != nil {
					b.Fatal(err)
				}
				for i, r := range order {
					shuffled[i] = l.Row(r)
				}
				begun := time.Now()
				for r := range receivers {
					from, to := r*rows/receivers, (r+1)*rows/receivers
					if by == "slice" {
						err = l.FreeRows(shuffled[from:to])
					} else {
						err = l.Free(order[from:to])
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				each = append(each, float64(time.Since(begun).Nanoseconds())/rows)
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(each)
			b.ReportMetric(each[0], "min-ns/row")
			b.ReportMetric(each[len(each)/2], "median-ns/row")
		})
	}
}

// Mixed is 128 sizes up to 32 MiB, one lease at a time, every page touched.
func BenchmarkMixed(b *testing.B) {
	const rows, step = 4096, 64
	b.Run("pool=slab", func(b *testing.B) {
		p, n := newPool(b), 0
		for b.Loop() {
			l, err := p.Get(rows, step*(1+n*53%128))
			if err != nil {
				b.Fatal(err)
			}
			touch(l.Bytes())
			_ = l.Close()
			n++
		}
	})
	b.Run("pool=row", func(b *testing.B) {
		p, n := row.NewPool(step*128, rows), 0
		for b.Loop() {
			bufs := p.Get(rows, step*(1+n*53%128))
			for _, r := range bufs {
				r[0] = 1
			}
			p.Put(bufs)
			n++
		}
	})
	b.Run("pool=sync.Pool", func(b *testing.B) {
		var p sync.Pool
		n := 0
		for b.Loop() {
			size := rows * step * (1 + n*53%128)
			buf, _ := p.Get().(*[]byte)
			if buf == nil || cap(*buf) < size {
				fresh := make([]byte, size)
				buf = &fresh
			}
			touch((*buf)[:size])
			p.Put(buf)
			n++
		}
	})
}

// TestAdversarial says how much is resident while 128 sizes up to 32 MiB are lent one after the
// other, 2,000 times, every page touched. One pool to a process: run.py starts them.
func TestAdversarial(t *testing.T) {
	const rows, step = 4096, 64
	pools := map[string]func() func(size int){
		"slab": func() func(int) {
			p, err := slab.New(slab.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return func(size int) {
				l, err := p.Get(rows, size)
				if err != nil {
					t.Fatal(err)
				}
				touch(l.Bytes())
				_ = l.Close()
			}
		},
		"row": func() func(int) {
			p := row.NewPool(step*128, rows)
			return func(size int) {
				bufs := p.Get(rows, size)
				for _, r := range bufs {
					r[0], r[size-1] = 1, 1
				}
				p.Put(bufs)
			}
		},
		"sync.Pool": func() func(int) {
			var p sync.Pool
			return func(size int) {
				buf, _ := p.Get().(*[]byte)
				if buf == nil || cap(*buf) < rows*size {
					fresh := make([]byte, rows*size)
					buf = &fresh
				}
				touch((*buf)[:rows*size])
				p.Put(buf)
			}
		},
	}
	use := pools[os.Getenv("SLAB_BENCH_POOL")]
	if use == nil {
		t.Skip("SKIPPED: run.py --micro sets SLAB_BENCH_POOL")
	}
	once := use()
	base, peak := resident(t), 0
	begun := time.Now()
	for n := range 2000 {
		once(step * (1 + n*53%128))
		peak = max(peak, resident(t))
	}
	floor := base + rows*step*128
	t.Logf("adversarial %s: peak %d MiB, floor %d MiB, ratio %.2f, %d us each", os.Getenv("SLAB_BENCH_POOL"),
		peak>>20, floor>>20, float64(peak)/float64(floor), time.Since(begun).Microseconds()/2000)
}

func resident(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}
