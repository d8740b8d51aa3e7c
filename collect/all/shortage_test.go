package all

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// scarce is a collector whose Open fails with an error until it has been called often enough.
type scarce struct {
	err   error
	until int // calls of Open that fail
	opens *int
}

func (scarce) Stats() []measure.Stat {
	return []measure.Stat{{ID: "scarce.thing", Kind: measure.Level, Unit: measure.Count}}
}

func (c scarce) Open(*collect.Env, collect.Want) (collect.Reading, error) {
	*c.opens++
	if *c.opens <= c.until {
		return nil, c.err
	}
	return c, nil
}

func (scarce) Read(out *collect.Out) error {
	out.Table("scarce.thing").Row(7)
	return nil
}

func (scarce) Close() {}

// A shortage at the start is a problem while it lasts and is tried again. Any other error is final
// and only a note.
func TestShortageAtTheStartPasses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		ticks int // without a row
	}{
		{"EMFILE", fmt.Errorf("open /proc/: %w", kernel.Errno(unix.EMFILE)), 3},
		{"ENFILE", fmt.Errorf("open /proc/: %w", unix.ENFILE), 3},
		{"ENOMEM", fmt.Errorf("socket: %w", unix.ENOMEM), 3},
		{"ENOENT", fmt.Errorf("open /proc/x: %w", unix.ENOENT), 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opens := 0
			s := collect.New(collect.Env{}, scarce{tt.err, 4, &opens})
			enough := errors.New("enough")
			without, n := 0, 0
			err := s.Run(context.Background(),
				[]measure.Query{{Stat: "scarce.thing", Step: 5 * measure.Millisecond}},
				measure.SinkFunc(func(b []*measure.Batch) error {
					troubled := false
					for _, p := range s.Problems() {
						troubled = troubled || strings.Contains(p.Text, "scarce.thing") &&
							strings.Contains(p.Text, tt.err.Error())
					}
					if b[0].Rows() == 0 {
						without++
						if troubled != kernel.IsShortage(tt.err) {
							t.Errorf("the problems are %v", s.Problems())
						}
						if len(b[0].Notes) != 1 || b[0].Notes[0] != tt.err.Error() {
							t.Errorf("the notes are %q", b[0].Notes)
						}
					} else if troubled {
						t.Errorf("the problems after the shortage are %v", s.Problems())
					}
					if n++; n == 9 {
						return enough
					}
					return nil
				}))
			if !errors.Is(err, enough) {
				t.Error(err)
			}
			if without != tt.ticks {
				t.Errorf("%d ticks are without rows, want %d", without, tt.ticks)
			}
			if s.Problems() != nil {
				t.Errorf("the problems after the run are %v", s.Problems())
			}
		})
	}
}
