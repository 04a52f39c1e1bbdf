package slab

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkGetClose(b *testing.B) {
	for _, s := range []struct {
		name       string
		rows, size int
	}{{"1x1MiB", 1, 1 << 20}, {"16384x2KiB", 16384, 2048}, {"32768x4KiB", 32768, 4096}} {
		b.Run(s.name, func(b *testing.B) {
			p := newPool(b, Options{})
			b.ReportAllocs()
			for b.Loop() {
				l, err := p.Get(s.rows, s.size)
				if err != nil {
					b.Fatal(err)
				}
				if l.Close() != nil {
					b.Fatal("close")
				}
			}
		})
	}
}

func BenchmarkGetRowsClose16384x2KiB(b *testing.B) {
	p := newPool(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Get(16384, 2048)
		if err != nil {
			b.Fatal(err)
		}
		if len(l.Rows()) != 16384 {
			b.Fatal("rows")
		}
		_ = l.Close()
	}
}

// 16,384 rows that 100 receivers release in shuffled order.
func BenchmarkFreeByIndex(b *testing.B) { benchmarkFree(b, false) }
func BenchmarkFreeBySlice(b *testing.B) { benchmarkFree(b, true) }

func benchmarkFree(b *testing.B, bySlice bool) {
	const rows, receivers = 16384, 100
	p := newPool(b, Options{})
	order := rand.New(rand.NewPCG(1, 2)).Perm(rows)
	slices := make([][]byte, rows)
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Get(rows, 2048)
		if err != nil {
			b.Fatal(err)
		}
		if bySlice {
			b.StopTimer()
			for i, r := range order {
				slices[i] = l.Row(r)
			}
			b.StartTimer()
		}
		for r := range receivers {
			from, to := r*rows/receivers, (r+1)*rows/receivers
			if bySlice {
				err = l.FreeRows(slices[from:to])
			} else {
				err = l.Free(order[from:to])
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		if l.Close() != nil {
			b.Fatal("close")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
