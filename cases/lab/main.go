// Lab plays one story of the fault lab until it is interrupted or its time is over, and prints
// where to look.
//
//	go run ./cases/lab                            lists the stories
//	go run ./cases/lab link-saturated --for 60s   plays one
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"culprit/cases"
)

func main() {
	cases.Act() // this program is also its own loads and guardian
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("lab", flag.ContinueOnError)
	f.SetOutput(errs)
	span := f.Duration("for", 0, "how long to play; 0: until Ctrl-C")
	entries := f.Int("entries", 0, "entries of a long table; 0: as the story says")
	mbit := f.Int("mbit", 0, "speed of the slow or full link in Mbit/s; 0: as the story says")
	show := f.Bool(
		"show", false,
		"run the commands that it prints, but for the diagnosis, after three seconds",
	)
	f.Usage = func() {
		fmt.Fprintln(errs, "usage: lab STORY [--for 60s] [--show] [--entries N] [--mbit N]")
		f.PrintDefaults()
	}
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if name == "" {
		for _, s := range cases.Catalogue() {
			twin := ""
			if s.Twin != "" {
				twin = " (healthy twin: " + s.Twin + ")"
			}
			fmt.Fprintf(out, "%-24s %s%s\n", s.Name, s.Help, twin)
		}
		return 0
	}
	story, err := cases.Find(name)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(
		context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
	)
	defer stop()
	if *span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *span)
		defer cancel()
	}
	l, err := cases.New()
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	code := 0
	options := cases.Options{Entries: *entries, Mbit: *mbit}
	if err := play(ctx, l, story, options, *show, out); err != nil {
		fmt.Fprintln(errs, err)
		code = 1
	}
	if err := l.Close(); err != nil {
		fmt.Fprintln(errs, err)
		code = 1
	}
	return code
}

func play(
	ctx context.Context, l *cases.Lab, story cases.Story, o cases.Options, show bool, out io.Writer,
) error {
	sc, err := story.Play(l, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n\n", story.Name, story.Help)
	for _, d := range sc.Loads {
		on := "the machine"
		if d.On != nil {
			on = d.On.NS
		}
		fmt.Fprintf(out, "  %-16s pid %-8d on %s\n", d.Name, d.PID, on)
	}
	fmt.Fprintln(out, "\ntry:")
	ask := "culprit diagnose --for 5s"
	if sc.Where != nil {
		ask = "ip netns exec " + sc.Where.NS + " " + ask
	}
	for _, t := range append([]string{ask}, sc.Try...) {
		fmt.Fprintln(out, "  "+t)
	}
	if sc.Truth.Rule == "" {
		fmt.Fprintln(out, "\nthe truth: nothing is wrong")
	} else {
		names := strings.Join(sc.Truth.Names, " or ")
		fmt.Fprintf(out, "\nthe truth: %s by %s\n", sc.Truth.Rule, names)
	}
	fmt.Fprintln(out)
	outside, said := sc.Outside(ctx, 2*time.Second)
	for _, line := range said {
		fmt.Fprintln(out, "  "+line)
	}
	if len(outside) > 0 {
		fmt.Fprintln(
			out, "\nthe scene isn't as it should be: is the machine busy with other things?",
		)
	}
	before := make([]cases.Count, len(sc.Loads))
	next := time.Second // the first rates come early
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
		if bad := sc.Failed(); len(bad) > 0 {
			return errors.New("a load ended: " + strings.Join(bad, "; "))
		}
		for i, d := range sc.Loads {
			now := d.Count()
			if bytes, ops := cases.Rate(before[i], now); !before[i].At.IsZero() && ops+bytes > 0 {
				fmt.Fprintf(
					out, "  %-16s %10.3f MB/s %10.1f op/s   p50 %v  p99 %v  errors %d\n", d.Name,
					bytes/1e6, ops, now.P50, now.P99, now.Errors,
				)
			}
			before[i] = now
		}
		if n == 1 && show {
			for _, t := range sc.Try {
				fmt.Fprintln(out, "$", t)
				c := l.Command("sh", "-c", t)
				c.Stdout, c.Stderr = out, out
				if err := c.Run(); err != nil && ctx.Err() == nil {
					fmt.Fprintln(out, err)
				}
			}
		}
		next = 2 * time.Second
		if n > 0 {
			next = 5 * time.Second
		}
	}
}
