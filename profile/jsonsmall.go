package profile

import (
	"io"
	"math"
	"slices"
	"strconv"
)

// GHCJSON is what a Haskell program writes with +RTS -pj. Safari is a recording of its Web
// Inspector.
const (
	GHCJSON Format = "GHC's cost centres in JSON"
	Safari  Format = "Safari's recording"
)

// A ghcNode is a call of a cost centre.
type ghcNode struct {
	ID       int64     `json:"id"`
	Entries  float64   `json:"entries"`
	Alloc    float64   `json:"alloc"`
	Ticks    float64   `json:"ticks"`
	Children []ghcNode `json:"children"`
}

func readGHCJSON(r io.Reader, o Options) (*Tree, error) {
	var p struct {
		Interval float64 `json:"tick_interval"` // microseconds
		Centres  []struct {
			ID     int64  `json:"id"`
			Label  string `json:"label"`
			Module string `json:"module"`
			Source string `json:"src_loc"`
		} `json:"cost_centres"`
		Root ghcNode `json:"profile"`
	}
	if err := decodeJSON(r, o.meter, string(GHCJSON), &p); err != nil {
		return nil, err
	}
	b := o.builder()
	names := map[int64]uint32{}
	for _, c := range p.Centres {
		names[c.ID] = b.Named(jsonName(c.Module + "." + c.Label))
		o.meter.add(jsonEntry)
		b.tree.Functions[names[c.ID]].File = c.Source
	}
	unit := "ticks"
	switch o.Value {
	case "", "ticks":
	case "bytes", "entries":
		unit = o.Value
	default:
		return nil, jsonError(GHCJSON, "no amount %s: there are ticks, bytes, entries", o.Value)
	}
	type step struct {
		n    *ghcNode
		call Call
	}
	for todo := []step{{&p.Root, Call{}}}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f, ok := names[s.n.ID]
		if !ok {
			f = b.Named([]byte("[cost centre " + strconv.FormatInt(s.n.ID, 10) + "]"))
			names[s.n.ID] = f
		}
		call := b.Child(s.call, f)
		b.Add(call.Node, map[string]float64{
			"ticks": s.n.Ticks, "bytes": s.n.Alloc, "entries": s.n.Entries,
		}[unit])
		for i := range s.n.Children {
			todo = append(todo, step{&s.n.Children[i], call})
		}
	}
	t := b.Tree()
	t.Unit = unit
	if unit == "ticks" && p.Interval > 0 {
		t.Seconds = t.Sum() * p.Interval / 1e6
	}
	return nonEmpty(t, GHCJSON)
}

func readSafari(r io.Reader, o Options) (*Tree, error) {
	var p struct {
		Recording struct {
			Stacks []struct {
				Frames []struct {
					Name string `json:"name"`
					URL  string `json:"url"`
					Line int    `json:"line"`
				} `json:"stackFrames"` // innermost first
			} `json:"sampleStackTraces"`
			Times []float64 `json:"sampleDurations"` // seconds
		} `json:"recording"`
	}
	if err := decodeJSON(r, o.meter, string(Safari), &p); err != nil {
		return nil, err
	}
	if n, m := len(p.Recording.Stacks), len(p.Recording.Times); n != m {
		return nil, jsonError(Safari, "%d stacks have %d times", n, m)
	}
	b := o.builder()
	var stack []uint32
	for i, s := range p.Recording.Stacks {
		stack = stack[:0]
		for _, f := range slices.Backward(s.Frames) {
			id := b.Named(jsonName(f.Name))
			if g := &b.tree.Functions[id]; g.File == "" {
				g.File, g.Line = f.URL, min(max(0, f.Line), math.MaxInt32)
			}
			stack = append(stack, id)
		}
		if len(stack) == 0 {
			stack = append(stack, b.Named([]byte("[no stack]")))
		}
		b.Stack(stack, math.Round(p.Recording.Times[i]*1e9))
	}
	t := b.Tree()
	t.Unit = "ns"
	return nonEmpty(t, Safari)
}
