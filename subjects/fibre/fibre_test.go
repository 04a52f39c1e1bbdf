package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/reedsolomon"
)

// small is a geometry that takes milliseconds.
func small(arm, input string) []string {
	return []string{"-arm", arm, "-input", input, "-original", "16", "-parity", "48", "-sizes", "1KiB,60KiB",
		"-in-flight", "3", "-receivers", "7", "-hold", "2ms", "-load-for", "200ms", "-report"}
}

func TestEveryArm(t *testing.T) {
	for _, arm := range armNames() {
		for _, input := range []string{"fresh", "reused"} {
			o, err := parse(small(arm, input), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := run(context.Background(), o, &out); err != nil {
				t.Fatal(arm, input, err)
			}
			var r report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, out.Bytes())
			}
			if r.Schema != "highwater.fibre/1" || r.Uploads == 0 || r.Floor <= r.Base || r.Base == 0 || r.MiBPerCPU == 0 {
				t.Fatalf("%s: %+v", arm, r)
			}
			for _, s := range r.Pools {
				if s.Leases != 0 || s.InUse != 0 || s.Misuses != 0 || s.Gets == 0 {
					t.Fatalf("%s: %+v", arm, s)
				}
			}
		}
	}
}

// Every arm's rows are a code word: the codec verifies them, and the originals are the data.
func TestArmsEncode(t *testing.T) {
	for _, arm := range armNames() {
		o, err := parse(small(arm, "fresh"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		a, err := newArm(o)
		if err != nil {
			t.Fatal(err)
		}
		options := []reedsolomon.Option{reedsolomon.WithLeopardGF16(true)}
		if w := a.work(); w != nil {
			options = append(options, reedsolomon.WithWorkAllocator(w))
		}
		codec, err := reedsolomon.New(o.original, o.parity, options...)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // the second and third time in used memory
			in, err := a.read(&noise{block: randomBlock(5)}, 60<<10)
			if err != nil {
				t.Fatal(err)
			}
			x, err := a.assemble(in.data, 3840)
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.Encode(x.Rows()); err != nil {
				t.Fatal(err)
			}
			if good, err := codec.Verify(x.Rows()); err != nil || !good {
				t.Fatal(arm, good, err)
			}
			if !bytes.Equal(bytes.Join(x.Rows()[:o.original], nil)[:len(in.data)], in.data) {
				t.Fatal(arm, "the original rows are not the data")
			}
			if err := errors.Join(x.Close(), in.done()); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRate(t *testing.T) {
	o, err := parse(append(small("split", "fresh"), "-rate", "0.001"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(context.Background(), o, &out); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Uploads != 1 {
		t.Fatal(r.Uploads, err)
	}
}

func TestSignalEndsIt(t *testing.T) {
	args := small("split", "fresh")
	o, err := parse(append(args[:len(args)-1], "-load-for", "1h", "-listen", "127.0.0.1:0"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := run(ctx, o, io.Discard); err != nil {
		t.Fatal(err)
	}
}

// A burst and a rest come first, and are not in the report's rates.
func TestBurst(t *testing.T) {
	o, err := parse(append(small("split", "fresh"), "-burst-for", "100ms", "-rest-for", "50ms"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newService(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.upload(context.Background(), o.burst); err != nil {
		t.Fatal(err)
	}
	burst := s.meter.uploads.Load()
	if err := s.upload(context.Background(), o.load); err != nil {
		t.Fatal(err)
	}
	if r := s.meter.report(); burst == 0 || r.Uploads != s.meter.uploads.Load()-burst {
		t.Fatal(burst, r.Uploads)
	}
}

func TestMedian(t *testing.T) {
	if got := median(map[int64]int{8: 1, 4: 1, 100: 1}); got != 8*lookUnit {
		t.Fatal(got)
	}
	if median(nil) != 0 {
		t.Fatal("of nothing")
	}
}

func TestPage(t *testing.T) {
	o, err := parse(small("split", "fresh"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newService(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.upload(context.Background(), o.load); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.meter.page(w, nil)
	text := w.Body.String()
	for _, want := range []string{"fibre_upload_seconds_bucket{le=\"0.001\"}", "le=\"+Inf\"", "fibre_uploads_total ",
		"fibre_rss_over_floor ", "slab_parity_in_use_bytes 0", "slab_scratch_asked_untouched_bytes 0", "# EOF\n"} {
		if !strings.Contains(text, want) {
			t.Fatalf("%q is not in\n%s", want, text)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for _, bad := range [][]string{{"-input", "none"}, {"-sizes", "x"}, {"-sizes", "0"}, {"-sizes", "2000MiB"},
		{"-sizes", ""}, {"-in-flight", "0"}, {"-hold", "-1s"}, {"-report"}, {"more"}, {"-rate", "-1"},
		{"-rate", "NaN"}, {"-nonsense"}} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if _, err := parse([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	if _, err := newArm(options{arm: "none"}); err == nil || !strings.Contains(err.Error(), "split") {
		t.Error(err)
	}
}

// Captured from /proc/self/statm on Linux 6.18.
func TestParseStatm(t *testing.T) {
	if got, err := parseStatm([]byte("2035 1012 870 5 0 372 0\n"), 4096); err != nil || got != 1012*4096 {
		t.Fatal(got, err)
	}
	for _, bad := range []string{"", "1", "1 x"} {
		if _, err := parseStatm([]byte(bad), 4096); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, time.Hour} {
		h.observe(d)
	}
	var b strings.Builder
	h.write(&b, "x_seconds")
	for _, want := range []string{"{le=\"0.001\"} 2\n", "{le=\"0.002\"} 2\n", "{le=\"0.004\"} 3\n",
		"{le=\"65.536\"} 3\n", "{le=\"+Inf\"} 4\n", "x_seconds_count 4"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
