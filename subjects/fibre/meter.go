package main

import (
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/highwater-rs/highwater/slab"
	"github.com/klauspost/reedsolomon"
)

// lookEvery: the process looks at its own resident set so often.
const lookEvery = 10 * time.Millisecond

// lookUnit is how exactly looks are remembered.
const lookUnit = 256 << 10

// idleSlack: memory counts as returned once it is within 5 % of the base.
const idleSlack = 1.05

// The pools are taken to be warm after so long, two of their windows, and so many uploads by each
// worker.
const (
	warmAfter   = 2 * slab.DefaultWindow
	warmUploads = 3
)

// meter knows the floor, what every program would need that did this work, and what was used.
type meter struct {
	o     options
	pools []*slab.Pool

	base atomic.Int64 // resident bytes before the first upload
	live atomic.Int64 // bytes of inputs, parity and touched scratch that somebody uses now
	peak atomic.Int64 // highest live

	bytes   atomic.Int64 // uploaded
	uploads atomic.Int64
	latency histogram
	sum     atomic.Uint32 // of what receivers read

	mu       sync.Mutex
	looks    map[int64]int // how often so many lookUnits were resident while loaded
	rssPeak  int64
	rssNow   int64
	begun    usage
	ended    usage
	endedAt  time.Time
	loaded   bool
	returned time.Duration // from the end of the load to base + 5 %; -1 not yet
	idleRSS  int64

	warmAt              time.Time // when the pools were taken to be warm
	churnWarm, churnEnd int64     // bytes grown and purged by then, and by the end of the load

	bytesBefore, uploadsBefore int64 // of an earlier load

	stopped chan struct{}
	once    sync.Once
}

func newMeter(o options, pools []*slab.Pool) *meter {
	m := &meter{o: o, pools: pools, returned: -1, looks: map[int64]int{}, stopped: make(chan struct{})}
	return m
}

// setBase reads the base, and has the kernel forget the high-water mark of the warm-up.
func (m *meter) setBase() error {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	u, err := readUsage()
	if err != nil {
		return err
	}
	m.base.Store(u.rss)
	go m.watch()
	return nil
}

func (m *meter) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.stopped:
			return
		case <-tick.C:
			m.look()
		}
	}
}

func (m *meter) look() {
	rss, err := readRSS()
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rssNow = rss
	switch {
	case m.loaded:
		m.rssPeak = max(m.rssPeak, rss)
		m.looks[rss/lookUnit]++
		if m.warmAt.IsZero() && time.Since(m.begun.at) >= warmAfter && m.uploads.Load() >= int64(warmUploads*m.o.inFlight) {
			m.warmAt, m.churnWarm = time.Now(), m.churned()
		}
	case !m.endedAt.IsZero():
		m.idleRSS = rss
		if m.returned < 0 && float64(rss) <= idleSlack*float64(m.base.Load()) {
			m.returned = time.Since(m.endedAt)
		}
	}
}

func (m *meter) stop() { m.once.Do(func() { close(m.stopped) }) }

func (m *meter) begin() {
	u, _ := readUsage()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.loaded = u, true
	m.bytesBefore, m.uploadsBefore = m.bytes.Load(), m.uploads.Load()
}

func (m *meter) end() {
	u, _ := readUsage()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended, m.loaded, m.endedAt, m.churnEnd = u, false, time.Now(), m.churned()
}

// add moves the live bytes, and with them the floor.
func (m *meter) add(bytes int64) {
	now := m.live.Add(bytes)
	for {
		peak := m.peak.Load()
		if now <= peak || m.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

func (m *meter) uploaded(size int, took time.Duration) {
	m.bytes.Add(int64(size))
	m.uploads.Add(1)
	m.latency.observe(took)
}

// sent reads one byte of each page, as a socket would read all.
func (m *meter) sent(row []byte) {
	var sum uint32
	for i := 0; i < len(row); i += 4096 {
		sum += uint32(row[i])
	}
	m.sum.Add(sum)
}

// floor is the base and the highest live bytes.
func (m *meter) floor() int64 { return m.base.Load() + m.peak.Load() }

// probe asks the codec for its scratch, and refuses it.
type probe struct{ rows, size int }

func (p *probe) Get(n, size int) [][]byte {
	p.rows, p.size = n, size
	return nil
}

func (p *probe) Put([][]byte) {}

// touchedScratch is how many bytes of scratch an encode of that row size touches: of 2m rows asked
// for (m is the next power of two above the parity rows) those from the parity count to m; the
// codec writes the others into the parity rows themselves. Measured with a fill pattern, and by
// the pools' own samples. How wide these rows are depends on the machine's caches: the codec is
// asked, with shards that are all one.
func touchedScratch(o options, rowSize int) (int64, error) {
	p := &probe{}
	codec, err := reedsolomon.New(o.original, o.parity, reedsolomon.WithLeopardGF16(true),
		reedsolomon.WithWorkAllocator(p))
	if err != nil {
		return 0, err
	}
	shards := make([][]byte, o.original+o.parity)
	one := make([]byte, rowSize)
	for i := range shards {
		shards[i] = one
	}
	_ = codec.Encode(shards) // fails: it gets no scratch
	return int64(max(p.rows/2-o.parity, 0)) * int64(p.size), nil
}

// median of the looks, in bytes.
func median(looks map[int64]int) int64 {
	total, seen := 0, 0
	for _, n := range looks {
		total += n
	}
	for _, units := range slices.Sorted(maps.Keys(looks)) {
		if seen += looks[units]; 2*seen >= total {
			return units * lookUnit
		}
	}
	return 0
}

func sortDurations(d []time.Duration) { slices.Sort(d) }

func maxOf(sizes []int) int { return slices.Max(sizes) }
