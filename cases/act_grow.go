package cases

import (
	"context"
	"flag"
	"os"
)

// actGrow takes memory at a rate and writes to each page, or takes that of a file. From a size on
// it uses what it has again.
func actGrow(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	rate := f.Float64("rate", 100e6, "bytes a second")
	most := f.Int("most", 0, "bytes to take; it is ready when it has them. 0: no limit")
	in := f.String("file", "", "a file that takes it, in place of the program")
	f.Parse(args)
	if *in != "" {
		return growFile(ctx, *in, *rate, *most, t)
	}
	const piece = 1 << 20
	var have [][]byte
	take := func() {
		b := make([]byte, piece)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		have = append(have, b)
	}
	for len(have)*piece < *most {
		take()
	}
	t.ready()
	p := &pace{rate: *rate / piece}
	for n := 0; ; n++ {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		switch {
		case *most == 0:
			take()
		case len(have) > 0:
			b := have[n%len(have)]
			for i := 0; i < len(b); i += 4096 {
				b[i]++
			}
		}
		t.done(piece, 0)
	}
}

// growFile writes a file at a rate. From a size on it begins again at its start.
func growFile(ctx context.Context, name string, rate float64, most int, t *tally) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	b := make([]byte, 1<<20)
	t.ready()
	p := &pace{rate: rate / float64(len(b))}
	for at := int64(0); ; at += int64(len(b)) {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if most > 0 && at >= int64(most) {
			at = 0
		}
		if _, err := file.WriteAt(b, at); err != nil {
			return err
		}
		t.done(int64(len(b)), 0)
	}
}

// actSpawn starts children that end at once, and waits for each, or for all at its end.
func actSpawn(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	rate := f.Float64("rate", 5, "children a second")
	first := f.Int("first", 0, "children to start before it is ready")
	reap := f.Bool("reap", false, "wait for each child")
	f.Parse(args)
	var zombies []*os.Process
	defer func() {
		for _, p := range zombies {
			p.Wait()
		}
	}()
	start := func() error {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		switch {
		case err != nil:
			return err
		case *reap:
			_, err = p.Wait()
			return err
		}
		zombies = append(zombies, p)
		return nil
	}
	for range *first {
		if err := start(); err != nil {
			return err
		}
	}
	t.ready()
	p := &pace{rate: *rate}
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if err := start(); err != nil {
			return err
		}
		t.done(0, 0)
	}
}
