package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Comparison is the difference of two results. The first is the reference.
type Comparison struct {
	View   string     `json:"view"` // load.compare
	Format int        `json:"format"`
	Names  [2]string  `json:"results"`
	Kind   Kind       `json:"kind"`
	Rows   []Compared `json:"rows"`
	Times  []Times    `json:"latency_ns,omitempty"`
	Notes  []string   `json:"notes"`
}

// Compared is one number of both results.
type Compared struct {
	What   string `json:"what"` // throughput, transactions, latency, cpu
	Way    Way    `json:"way,omitempty"`
	Where  string `json:"where,omitempty"` // here or there, for CPU time
	Unit   string `json:"unit"`            // bit/s, 1/s, ns
	First  Spread `json:"first"`
	Second Spread `json:"second"`
	Ratio
	Less bool `json:"less_is_better"`
}

// Times are the percentiles of both results.
type Times struct {
	First  *Percentile `json:"first"`
	Second *Percentile `json:"second"`
}

// maxResult is the highest size of a file with a result: far above that of a day in seconds.
const maxResult = 256 << 20

// ReadResult reads a result that -o wrote. The error says what is wrong with it.
func ReadResult(r io.Reader) (*Result, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxResult+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxResult {
		return nil, fmt.Errorf("larger than %d MB", maxResult>>20)
	}
	return parseResult(b)
}

// parseResult parses and checks a result.
func parseResult(b []byte) (*Result, error) {
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("at byte %d: %w", syntax.Offset, err)
		}
		return nil, err
	}
	switch {
	case r.View != resultView:
		return nil, fmt.Errorf("not a result of culprit load (%q is not %q): "+
			"make one with culprit load stream HOST -o FILE.json", printable(r.View), resultView)
	case r.Format != resultFormat:
		return nil, fmt.Errorf("it has format %d, this program reads %d", r.Format, resultFormat)
	}
	if err := r.Test.Check(); err != nil {
		return nil, fmt.Errorf("invalid test: %w", err)
	}
	if len(r.Runs) == 0 {
		return nil, errors.New("it has no runs")
	}
	for _, run := range r.Runs {
		if run == nil || run.Here == nil {
			return nil, errors.New("one of its runs is empty")
		}
		for _, e := range []*End{run.Here, run.There} {
			if e == nil {
				continue
			}
			if err := e.check(); err != nil {
				return nil, err
			}
		}
	}
	return &r, nil
}

// Compare compares two results with these names. The error says that they are of different kinds or
// have no number in common.
func Compare(names [2]string, a, b *Result) (*Comparison, error) {
	if a.Test.Kind != b.Test.Kind {
		return nil, fmt.Errorf("%s is of a %s, %s of a %s: they can't be compared", names[0],
			a.Test.Kind, names[1], b.Test.Kind)
	}
	c := &Comparison{View: "load.compare", Format: resultFormat, Names: names, Kind: a.Test.Kind,
		Notes: differences(a, b)}
	row := func(what, unit, where string, way Way, less bool, of func(*Result, *Run) Number) {
		spread := func(r *Result) Spread {
			var v []Number
			for _, run := range r.counted() {
				v = append(v, of(r, run))
			}
			return spreadOf(v)
		}
		one := Compared{What: what, Way: way, Where: where, Unit: unit, First: spread(a),
			Second: spread(b), Less: less}
		if one.Ratio = ratioOf(one.First, one.Second); one.Ratio.Ratio.Known() {
			c.Rows = append(c.Rows, one)
		}
	}
	if a.Test.Kind == Exchange {
		row("transactions", "1/s", "", "", false,
			func(_ *Result, r *Run) Number { return r.Here.Total.Exchanges() })
		row("latency", "ns", "", "", true, func(_ *Result, r *Run) Number {
			if r.Here.Total.Times == nil {
				return unknown()
			}
			return Number(r.Here.Total.Times.Mean())
		})
	}
	for _, w := range []Way{Up, Down} {
		if a.Test.Kind == Stream {
			row("throughput", "bit/s", "", w, false,
				func(_ *Result, r *Run) Number { return r.Throughput(w) })
		}
	}
	unit := "ns/GB"
	if a.Test.Kind == Exchange {
		unit = "ns/transaction"
	}
	for _, where := range []string{"here", "there"} {
		row("cpu", unit, where, "", true, func(res *Result, r *Run) Number {
			e := r.Here
			if where == "there" {
				e = r.There
			}
			if work := r.work(&res.Test); e != nil && work > 0 {
				return e.Total.CPU.Machine / work * 1e9
			}
			return unknown()
		})
	}
	if a.Test.Kind == Exchange {
		all := func(r *Result) *Percentile {
			var l Latencies
			for _, run := range r.counted() {
				if run.Here.Total.Times != nil {
					l.merge(*run.Here.Total.Times)
				}
			}
			return l.Percentiles()
		}
		c.Times = []Times{{all(a), all(b)}}
	}
	if len(c.Rows) == 0 {
		return nil, errors.New("the results have no number in common")
	}
	return c, nil
}

// differences returns a note for each difference between the tests.
func differences(a, b *Result) []string {
	notes := []string{}
	differ := func(what string, x, y any) {
		if x != y {
			notes = append(notes, fmt.Sprintf("the tests differ: %s %v and %v", what, x, y))
		}
	}
	differ("direction", a.Test.Way, b.Test.Way)
	differ("--streams", a.Test.Streams, b.Test.Streams)
	differ("--for", a.Test.For, b.Test.For)
	differ("bytes a write", a.Test.Size, b.Test.Size)
	differ("bytes of a request", a.Test.Ask, b.Test.Ask)
	differ("bytes of a response", a.Test.Answer, b.Test.Answer)
	differ("--window", a.Test.Window, b.Test.Window)
	differ("congestion control", a.congestion(), b.congestion())
	differ("--rate", a.Test.Rate+a.Test.Pace, b.Test.Rate+b.Test.Pace)
	differ("--nodelay", a.Test.NoDelay, b.Test.NoDelay)
	differ("--udp", a.Test.UDP, b.Test.UDP)
	differ("a connection per transaction", a.Test.Connect, b.Test.Connect)
	differ("--copy", a.Test.Copy, b.Test.Copy)
	return notes
}

// counted returns the runs that did not end early, or all when each did.
func (r *Result) counted() []*Run {
	early := func(run *Run) bool { return run.Early != "" }
	if whole := slices.DeleteFunc(slices.Clone(r.Runs), early); len(whole) > 0 {
		return whole
	}
	return r.Runs
}

// congestion returns the congestion control of the senders in the first run.
func (r *Result) congestion() string {
	if sender, _ := r.Runs[0].ends(r.Test.ways()[0]); sender != nil {
		return orWord(printable(sender.Congestion), "that is not known")
	}
	return "that is not known"
}
