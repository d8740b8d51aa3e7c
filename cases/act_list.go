package cases

import (
	"context"
	"flag"
	"os"
)

// actList lists a directory. Lists that fail count as errors.
func actList(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	in := f.String("in", "", "the directory")
	rate := f.Float64("rate", 4, "lists a second")
	f.Parse(args)
	t.ready()
	p := &pace{rate: *rate}
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if _, err := os.ReadDir(*in); err != nil {
			t.errors.Add(1)
			continue
		}
		t.done(0, 0)
	}
}
