// fibre uploads erasure-coded blobs: each is encoded into 4,096 original and 12,288 parity rows, and
// sent to receivers that finish in shuffled order. It is the subject of the history in which the
// buffers of that took eight times the blob; the arms are where the buffers come from.
//
// It makes its own load, for a while, then idles, and shows itself at /healthz and /metrics. With
// -report it ends after that and prints what it measured as one line of JSON. A burst before the
// load, and a rest, show what is given back while the service stays under observation.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options of one process.
type options struct {
	arm       string
	input     string
	sizes     []int // bytes of a blob; uploads draw one of them
	inFlight  int
	receivers int
	hold      time.Duration
	rate      float64 // uploads a second; 0 is as fast as they go
	load      time.Duration
	idle      time.Duration
	burst     time.Duration // a first load, before one rest
	rest      time.Duration
	window    time.Duration
	original  int
	parity    int
	seed      uint64
	listen    string
	report    bool
	huge      bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "fibre:", err)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fibre:", err)
		os.Exit(1)
	}
}

// run is the whole program: base, load, idle, report.
func run(ctx context.Context, o options, out io.Writer) error {
	s, err := newService(o)
	if err != nil {
		return err
	}
	defer s.close()
	if o.listen != "" {
		if err := s.serve(o.listen); err != nil {
			return err
		}
	}
	if o.burst > 0 {
		if err := s.upload(ctx, o.burst); err != nil {
			return err
		}
		sleep(ctx, o.rest)
	}
	if err := s.upload(ctx, o.load); err != nil {
		return err
	}
	sleep(ctx, o.idle)
	if o.report {
		return json.NewEncoder(out).Encode(s.meter.report())
	}
	<-ctx.Done()
	return nil
}

func parse(args []string, errs io.Writer) (o options, err error) {
	f := flag.NewFlagSet("fibre", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.arm, "arm", "split", "where buffers come from: "+strings.Join(armNames(), ", "))
	f.StringVar(&o.input, "input", "fresh", "the blob: reused (one for ever), fresh (read for each upload)")
	sizes := f.String("sizes", "32MiB", "sizes of blobs, separated by commas")
	f.IntVar(&o.inFlight, "in-flight", 4, "uploads at once")
	f.IntVar(&o.receivers, "receivers", 100, "receivers of each upload")
	f.DurationVar(&o.hold, "hold", 100*time.Millisecond, "until the last receiver has its rows")
	f.Float64Var(&o.rate, "rate", 0, "uploads begun a second; 0 is as fast as they go")
	f.DurationVar(&o.load, "load-for", 0, "how long to upload; 0 is until the end")
	f.DurationVar(&o.idle, "idle-for", 0, "with -report: how long to idle afterwards")
	f.DurationVar(&o.burst, "burst-for", 0, "upload for so long first, and then rest once")
	f.DurationVar(&o.rest, "rest-for", 0, "how long to rest after the burst")
	f.DurationVar(&o.window, "window", 0, "slab.Options.Window")
	f.IntVar(&o.original, "original", 4096, "original rows")
	f.IntVar(&o.parity, "parity", 12288, "parity rows")
	f.Uint64Var(&o.seed, "seed", 1, "of sizes, contents and orders")
	f.StringVar(&o.listen, "listen", "", "address of /healthz and /metrics")
	f.BoolVar(&o.report, "report", false, "end after load and idle, and print a line of JSON")
	f.BoolVar(&o.huge, "huge", false, "advise huge pages for parity and input")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.sizes, err = parseSizes(*sizes); err != nil {
		return o, err
	}
	return o, o.check(f.Args())
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is not expected", rest[0])
	case o.input != "reused" && o.input != "fresh":
		return fmt.Errorf("-input %q is neither reused nor fresh", o.input)
	case o.inFlight < 1 || o.receivers < 1 || o.original < 1 || o.parity < 1:
		return errors.New("-in-flight, -receivers, -original and -parity must be positive")
	case o.hold < 0 || o.load < 0 || o.idle < 0 || o.window < 0 || o.burst < 0 || o.rest < 0:
		return errors.New("a time is negative")
	case !(o.rate >= 0 && o.rate <= 1e6):
		return errors.New("-rate must be from 0 to 1000000")
	case o.report && o.load == 0:
		return errors.New("-report needs -load-for")
	}
	return nil
}

// parseSizes reads "1MiB,64KiB,4096".
func parseSizes(text string) (sizes []int, err error) {
	for _, word := range strings.Split(text, ",") {
		number, unit := strings.TrimSpace(word), 1
		if n, found := strings.CutSuffix(number, "MiB"); found {
			number, unit = n, 1<<20
		} else if n, found := strings.CutSuffix(number, "KiB"); found {
			number, unit = n, 1<<10
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 1<<30/unit {
			return nil, fmt.Errorf("-sizes: %q is no size from 1 byte to 1024 MiB", word)
		}
		sizes = append(sizes, n*unit)
	}
	return sizes, nil
}
