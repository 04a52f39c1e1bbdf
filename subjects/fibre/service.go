package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/highwater-rs/highwater/slab/rows"
	"github.com/klauspost/reedsolomon"
)

// service is one process: an arm, a codec, and the meter of both.
type service struct {
	o     options
	arm   arm
	codec reedsolomon.Encoder
	meter *meter
	web   *http.Server
	block []byte // what blobs are made of
	// scratch is how many bytes of it an encode touches, by row size.
	scratch map[int]int64
}

func newService(o options) (*service, error) {
	a, err := newArm(o)
	if err != nil {
		return nil, err
	}
	s := &service{o: o, arm: a, meter: newMeter(o, a.pools()), block: randomBlock(o.seed),
		scratch: map[int]int64{}}
	work := []reedsolomon.Option{reedsolomon.WithLeopardGF16(true)}
	if w := a.work(); w != nil {
		work = append(work, reedsolomon.WithWorkAllocator(w))
	}
	for _, size := range o.sizes {
		rowSize := rows.Size(size, 0, o.original)
		if s.scratch[rowSize], err = touchedScratch(o, rowSize); err != nil {
			return nil, err
		}
	}
	if s.codec, err = reedsolomon.New(o.original, o.parity, work...); err != nil {
		return nil, err
	}
	return s, s.warmUp()
}

// warmUp encodes noise once with buffers that are thrown away: the codec's tables, which belong to
// the base, are resident then.
func (s *service) warmUp() error {
	small, err := reedsolomon.New(s.o.original, s.o.parity, reedsolomon.WithLeopardGF16(true),
		reedsolomon.WithWorkAllocator(warmWork{}))
	if err != nil {
		return err
	}
	shards := reedsolomon.AllocAligned(s.o.original+s.o.parity, 2*rows.Unit)
	rng := rand.New(rand.NewPCG(s.o.seed, 0))
	for _, shard := range shards[:s.o.original] {
		for i := range shard {
			shard[i] = byte(rng.Uint32())
		}
	}
	if err := small.Encode(shards); err != nil {
		return err
	}
	shards = nil
	runtime.GC()
	debug.FreeOSMemory()
	return s.meter.setBase()
}

type warmWork struct{}

func (warmWork) Get(n, size int) [][]byte { return reedsolomon.AllocAligned(n, size) }
func (warmWork) Put([][]byte)             {}

// serve answers /healthz and /metrics until close.
func (s *service) serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/metrics", s.meter.page)
	s.web = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.web.Serve(listener) }()
	return nil
}

func (s *service) close() {
	if s.web != nil {
		_ = s.web.Close()
	}
	s.meter.stop()
	_ = s.arm.close()
}

// upload keeps so many uploads in flight for a time; 0 is until the end.
func (s *service) upload(ctx context.Context, long time.Duration) error {
	if long > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, long)
		defer cancel()
	}
	s.meter.begin()
	due := s.arrivals(ctx)
	errs := make(chan error, s.o.inFlight)
	var wg sync.WaitGroup
	for worker := range s.o.inFlight {
		wg.Go(func() {
			if err := s.uploads(due, uint64(worker)); err != nil {
				errs <- fmt.Errorf("upload: %w", err)
			}
		})
	}
	wg.Wait()
	s.meter.end()
	close(errs)
	return <-errs
}

// arrivals says when uploads are due, until the load is over: evenly at the rate, or whenever a
// worker is free. An upload that has to wait for a worker is late, and its latency says so.
func (s *service) arrivals(ctx context.Context) <-chan time.Time {
	due := make(chan time.Time)
	go func() {
		defer close(due)
		begun := time.Now()
		for n := 0; ; n++ {
			at := time.Now()
			if s.o.rate > 0 {
				at = begun.Add(time.Duration(float64(n) / s.o.rate * float64(time.Second)))
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(at)):
				}
			}
			select {
			case <-ctx.Done():
				return
			case due <- at:
			}
		}
	}()
	return due
}

// uploads is one worker.
func (s *service) uploads(due <-chan time.Time, number uint64) error {
	rng := rand.New(rand.NewPCG(s.o.seed, number+1))
	w := &worker{service: s, rng: rng, noise: &noise{s.block, rng.IntN(len(s.block))}}
	if s.o.input == "reused" {
		w.kept = make([]byte, maxOf(s.o.sizes))
		if _, err := io.ReadFull(w.noise, w.kept); err != nil {
			return err
		}
		s.meter.add(int64(len(w.kept)))
	}
	for at := range due {
		size := s.o.sizes[rng.IntN(len(s.o.sizes))]
		if err := w.upload(size); err != nil {
			return err
		}
		if s.o.rate == 0 {
			at = w.begun
		}
		s.meter.uploaded(size, time.Since(at))
	}
	return nil
}

type worker struct {
	*service
	rng   *rand.Rand
	noise *noise
	kept  []byte // the input, if it is reused
	begun time.Time
	order []int // of rows, shuffled
	dues  []time.Duration
}

// upload does one.
func (w *worker) upload(size int) error {
	w.begun = time.Now()
	if w.kept != nil {
		return w.one(w.kept[:size])
	}
	w.meter.add(int64(size))
	in, err := w.arm.read(w.noise, size)
	if err != nil {
		return err
	}
	if err := w.one(in.data); err != nil {
		return err
	}
	err = in.done()
	w.meter.add(-int64(size))
	return err
}

// one encodes a blob, and lets the receivers go in shuffled order.
func (s *worker) one(data []byte) error {
	rowSize := rows.Size(len(data), 0, s.o.original)
	parity := int64(s.o.parity) * int64(rowSize)
	s.meter.add(parity)
	x, err := s.arm.assemble(data, rowSize)
	if err != nil {
		return err
	}
	all := x.Rows()
	s.meter.add(s.scratch[rowSize])
	if err := s.codec.Encode(all); err != nil {
		return err
	}
	s.meter.add(-s.scratch[rowSize])
	if err := s.send(x, all); err != nil {
		return err
	}
	err = x.Close()
	s.meter.add(-parity)
	return err
}

// send gives each receiver its share of the shuffled rows; they finish one after the other until
// the hold is over.
func (s *worker) send(x assembly, all [][]byte) error {
	s.shuffle(len(all))
	begun, n := time.Now(), s.o.receivers
	for r := range n {
		time.Sleep(s.dues[r] - time.Since(begun))
		mine := s.order[r*len(all)/n : (r+1)*len(all)/n]
		for _, i := range mine {
			s.meter.sent(all[i])
		}
		if err := x.Free(mine); err != nil {
			return err
		}
	}
	return nil
}

// shuffle deals the rows to the receivers, and says when each is done.
func (s *worker) shuffle(count int) {
	if len(s.order) != count {
		s.order = s.rng.Perm(count)
		s.dues = make([]time.Duration, s.o.receivers)
	}
	s.rng.Shuffle(count, func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	for i := range s.dues {
		s.dues[i] = time.Duration(s.rng.Int64N(int64(s.o.hold) + 1))
	}
	sortDurations(s.dues)
}

func sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

// noise is an endless blob that costs about as much as reading one from a socket.
type noise struct {
	block []byte
	at    int
}

func randomBlock(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(rng.Uint32())
	}
	return block
}

func (n *noise) Read(b []byte) (int, error) {
	got := copy(b, n.block[n.at:])
	n.at = (n.at + got) % len(n.block)
	return got, nil
}
