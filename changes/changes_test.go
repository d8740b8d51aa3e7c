package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"culprit/fleet"
	"culprit/measure"
)

var nan = math.NaN()

func TestCompare(t *testing.T) {
	steady := func(v float64) []float64 {
		return []float64{v, v * 1.01, v * 0.99, v, v, v * 1.02, v}
	}
	for _, tt := range []struct {
		name          string
		before, after []float64
		unit          measure.Unit
		want          Effect
		ok            bool
	}{
		{"twice", steady(2e6), steady(4e6), "B/s", Effect{2e6, 4e6, 16.7, 1}, true},
		{"half", steady(4e6), steady(2e6), "B/s", Effect{4e6, 2e6, -16.7, -1}, true},
		{"from nothing", steady(0), steady(0.4), measure.Ratio, Effect{0, 0.4, 33.3, 6.32}, true},
		{"just above the least difference", steady(0.05), steady(0.101), measure.Ratio,
			Effect{0.05, 0.101, 6.12, 1.01}, true},
		{"just below it", steady(0.05), steady(0.099), measure.Ratio,
			Effect{0.05, 0.099, 5.88, 0.985}, false},
		{"a factor of 1.2", steady(10e6), steady(12e6), "B/s",
			Effect{10e6, 12e6, 5.56, 0.263}, false},
		{"bursts", []float64{1e6, 9e6, 1e6, 9e6, 1e6, 9e6}, []float64{9e6, 1e6, 9e6, 9e6, 9e6, 9e6},
			"B/s", Effect{5e6, 9e6, 0.674, 0.848}, false},
		{"one burst", steady(1e6), []float64{1e6, 1e6, 90e6, 1e6, 1e6, 1e6}, "B/s",
			Effect{1.002e6, 1e6, -0.0665, -0.00288}, false},
		{"three cells that are far apart", []float64{1e6, 1e6, 1e6}, []float64{3e6, 3e6, 3e6}, "B/s",
			Effect{1e6, 3e6, 22.2, 1.58}, true},
		{"three cells that are near", []float64{1e6, 1.2e6, 1.4e6}, []float64{2.4e6, 2.6e6, 2.8e6},
			"B/s", Effect{1.2e6, 2.6e6, 4.72, 1.12}, false},
		{"unknown cells", []float64{nan, 1e6, 1e6, 1e6}, []float64{3e6, nan, 3e6, 3e6}, "B/s",
			Effect{1e6, 3e6, 22.2, 1.58}, true},
		{"too few cells", []float64{nan, 1e6, 1e6}, steady(4e6), "B/s",
			Effect{nan, nan, nan, nan}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Compare(tt.before, tt.after, fleet.LeastDifference(tt.unit))
			near := func(a, b float64) bool {
				return a != a && b != b || math.Abs(a-b) <= 0.01*math.Abs(b)
			}
			if ok != tt.ok || !near(got.Before, tt.want.Before) ||
				!near(got.After, tt.want.After) || !near(got.Size, tt.want.Size) ||
				!near(got.Deviations, tt.want.Deviations) {
				t.Errorf("%+v, %v; want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestApart(t *testing.T) {
	for _, tt := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5}, 1},
		{[]float64{4, 5}, []float64{1, 2, 3}, -1},
		{[]float64{1, 1}, []float64{1, 1, 1}, 0},
		{[]float64{1, 2, 4}, []float64{2, 3}, (1.0 - 1 + 2 - 1) / 6},
	} {
		if got := apart(tt.a, tt.b); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("apart(%v, %v) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// machine is a reader of rows: "device=eth0 direction=rx" to a value.
type machine map[measure.StatID]map[string]float64

// recorded are the fields that are recorded; others are refused.
const recorded = "netns,device,direction,process"

// Ask returns six cells around the value of each row.
func (m machine) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	for _, f := range q.By {
		if !strings.Contains(recorded, f) {
			return nil, fmt.Errorf("%s: %w", f, measure.ErrUnclear)
		}
	}
	rows, ok := m[q.Stat]
	if !ok {
		return nil, measure.ErrUnclear
	}
	a := &measure.Answer{
		Query: q, Kind: measure.Delta, Unit: "B/s", Step: measure.Second,
		Elapsed: []measure.Span{1e9, 1e9, 1e9, 1e9, 1e9, 1e9},
	}
	places := map[string]int{}
	for text, v := range rows {
		var key []measure.Label
		name := ""
		for _, f := range q.By {
			value := ""
			for _, word := range strings.Fields(text) {
				if k, val, _ := strings.Cut(word, "="); k == f {
					value = val
				}
			}
			a.Labels = append(a.Labels, value)
			key = append(key, measure.Label(len(a.Labels)-1))
			name += value + " "
		}
		i, ok := places[name]
		if !ok {
			i = len(a.Series)
			places[name] = i
			a.Series = append(a.Series, measure.Series{Key: key, Values: make([]float64, 6)})
		}
		for c := range 6 {
			a.Series[i].Values[c] += v * (1 + 0.001*float64(c))
		}
	}
	return a, nil
}

// stats are the statistics of a machine.
func stats() []measure.Stat {
	fields := func(names ...string) (out []measure.Field) {
		for _, n := range names {
			out = append(out, measure.Field{Name: n, Type: measure.Word})
		}
		return out
	}
	delta := func(id string, names ...string) measure.Stat {
		return measure.Stat{
			ID: measure.StatID(id), Kind: measure.Delta, Unit: measure.Bytes, Fold: measure.Sum,
			Fields: fields(names...),
		}
	}
	return []measure.Stat{
		delta("net.device.bytes", "netns", "device", "direction"),
		delta("net.device.wire", "device"),
		delta("disk.bytes", "device", "direction", "missing"),
		delta("process.io", "pid", "process"),
		delta("server.cpu"),
	}
}

func find(t *testing.T, before, after machine) *Report {
	t.Helper()
	side := func(m machine, start measure.Time) *Side {
		return &Side{Reader: m, Stats: stats(), Fine: measure.Second,
			Over: measure.Interval{Start: start, End: start.Add(6 * measure.Second)}}
	}
	r, err := Find(t.Context(), side(before, 1e9), side(after, 100e9))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFind(t *testing.T) {
	r := find(t, machine{
		"net.device.bytes": {
			"netns=a1 device=eth0 direction=rx": 7e6, "netns=a1 device=eth1 direction=rx": 1e6,
		},
		"net.device.wire": {"device=eth0": 8e6},
		"disk.bytes":      {"device=sda direction=read": 50e6, "device=sda direction=write": 20e6},
		"process.io":      {"pid=1 process=db": 30e6, "pid=2 process=web": 1e6},
		"server.cpu":      {"": 1},
	}, machine{
		"net.device.bytes": { // the namespace has another name
			"netns=b2 device=eth0 direction=rx": 1e6, "netns=b2 device=eth1 direction=rx": 1e6,
		},
		"net.device.wire": {"device=eth0": 2e6},
		"disk.bytes":      {"device=sda direction=read": 50e6, "device=sda direction=write": 20e6},
		"process.io":      {"pid=3 process=db": 30e6, "pid=4 process=backup": 130e6},
		"server.cpu":      {"": 9e9},
	})
	if r.Compared != 4 || len(r.Changes) != 2 {
		t.Fatalf("compared %d, changed %+v", r.Compared, r.Changes)
	}
	io, net := r.Changes[0], r.Changes[1]
	if io.Statistic == "net.device.bytes" {
		io, net = net, io
	}
	if net.Query != `net.device.bytes where device = "eth0" and direction = "rx"` ||
		math.Round(net.Before/1e5) != 70 || math.Round(net.After/1e5) != 10 ||
		net.Deviations >= 0 || len(net.With) != 1 || net.With[0] != "net.device.wire" {
		t.Errorf("the interface: %+v", net)
	}
	// What is new explains the sum.
	if io.Query != "process.io" || math.Round(io.Before/1e6) != 31 ||
		math.Round(io.After/1e6) != 160 || len(io.Explains) != 1 ||
		io.Explains[0].Value != "backup" || math.Abs(io.Explains[0].Share-130.0/131) > 0.001 {
		t.Errorf("the processes: %+v", io)
	}
}

func TestFindNothing(t *testing.T) {
	same := machine{"net.device.wire": {"device=eth0": 8e6}}
	if r := find(t, same, same); r.Compared != 1 || len(r.Changes) != 0 {
		t.Errorf("of equal times: %+v", r)
	}
	side := &Side{Reader: machine{}, Stats: stats(), Fine: measure.Second,
		Over: measure.Interval{Start: 1, End: 6e9}}
	if _, err := Find(t.Context(), side, side); !errors.Is(err, ErrNothing) {
		t.Errorf("without statistics: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, side, side); !errors.Is(err, context.Canceled) {
		t.Errorf("of an ended context: %v", err)
	}
}

// wide is a machine that refuses one statistic for its number of rows.
type wide struct{ machine }

func (w wide) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	if q.Stat == "net.device.wire" {
		return nil, fmt.Errorf("ask: %w", measure.ErrTooLarge)
	}
	return w.machine.Ask(ctx, q)
}

func TestFindWithoutWhatIsTooLarge(t *testing.T) {
	one := machine{"net.device.wire": {"device=eth0": 8e6}, "process.io": {"process=a": 5e6}}
	side := &Side{Reader: wide{one}, Stats: stats(), Fine: measure.Second,
		Over: measure.Interval{Start: 1, End: 6e9}}
	r, err := Find(t.Context(), side, side)
	if err != nil || r.Compared != 1 || len(r.Notes) != 1 ||
		!strings.HasPrefix(r.Notes[0], "net.device.wire has too many rows") {
		t.Errorf("%+v, %v", r, err)
	}
}

// slow is a machine that answers no more about one statistic before the deadline.
type slow struct{ machine }

func (s slow) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	if q.Stat == "process.io" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.machine.Ask(ctx, q)
}

func TestFindUntilTheDeadline(t *testing.T) {
	one := machine{"net.device.wire": {"device=eth0": 8e6}, "process.io": {"process=a": 5e6}}
	side := &Side{Reader: slow{one}, Stats: stats(), Fine: measure.Second,
		Over: measure.Interval{Start: 1, End: 6e9}}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, err := Find(ctx, side, side)
	if err != nil || r.Compared != 1 || len(r.Notes) != 1 ||
		!strings.HasPrefix(r.Notes[0], "only 3 of 4 statistics were read") {
		t.Errorf("%+v, %v", r, err)
	}
	delete(one, "net.device.wire")
	if _, err := Find(ctx, side, side); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with nothing compared: %v", err)
	}
}

// What is known between two statistics is a part of the whole, and stays as it is.
func TestFindStepwise(t *testing.T) {
	side := func(traffic float64) *Side {
		return &Side{
			Reader: machine{
				"net.device.wire": {"device=eth0": traffic}, "process.io": {"process=a": traffic},
			},
			Stats: stats(), Fine: measure.Second, Over: measure.Interval{Start: 1, End: 6e9},
		}
	}
	var parts []*Report
	var read []string
	whole, err := FindStepwise(t.Context(), side(1e6), side(90e6), func(p *Progress) {
		parts, read = append(parts, p.Report()), append(read, fmt.Sprintf("%d/%d", p.Read, p.Of))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(read, " "); got != "1/4 2/4 3/4 4/4" {
		t.Fatalf("read %s", got)
	}
	for i, want := range []int{0, 1, 1, 2} {
		if got := parts[i]; got.Compared != want || len(got.Changes) != want {
			t.Errorf("part %d compared %d, found %d changes, want %d", i, got.Compared,
				len(got.Changes), want)
		}
	}
	if !reflect.DeepEqual(parts[3], whole) {
		t.Errorf("the last part:\n%+v\nthe whole:\n%+v", parts[3], whole)
	}
}

func TestToCompare(t *testing.T) {
	all := []measure.Stat{
		{ID: "net.protocol.events"}, {ID: "net.device.bytes"}, {ID: "server.cpu"}, {ID: "irq.time"},
		{ID: "disk.latency", Kind: measure.Dists}, {ID: "disk.bytes"},
	}
	var got []string
	for _, st := range toCompare(all) {
		got = append(got, string(st.ID))
	}
	const want = "net.device.bytes disk.bytes net.protocol.events irq.time"
	if strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if all[0].ID != "net.protocol.events" {
		t.Error("the list of the caller was changed")
	}
}

func TestStep(t *testing.T) {
	side := func(seconds, fine measure.Span) *Side {
		return &Side{Fine: fine * measure.Second,
			Over: measure.Interval{End: measure.Time(seconds * measure.Second)}}
	}
	for _, tt := range []struct {
		a, b *Side
		want measure.Span
	}{
		{side(12, 1), side(60, 1), 1},
		{side(600, 1), side(7200, 1), 10},
		{side(600, 1), side(600, 15), 15},
		{side(3600, 15), side(86400, 15), 60},
	} {
		if got := step(tt.a, tt.b); got != tt.want*measure.Second {
			t.Errorf("step %v, want %d s", got, tt.want)
		}
	}
}

// A row that is away in some cells is 0 there, but a limit is not.
func TestJoinOfLimits(t *testing.T) {
	for _, tt := range []struct {
		id   measure.StatID
		want float64
	}{{"unix.listen.queue", 0}, {"unix.listen.limit", nan}} {
		t.Run(string(tt.id), func(t *testing.T) {
			one := &table{stat: measure.Stat{ID: tt.id, Kind: measure.Level, Fold: measure.Sum}}
			a := &measure.Answer{
				Elapsed: []measure.Span{1e9, 1e9},
				Series:  []measure.Series{{Values: []float64{4096, nan}}},
			}
			one.join(a, a)
			got := one.rows[0].after[1]
			if got != tt.want && !(got != got && tt.want != tt.want) {
				t.Errorf("the cell without a row is %v", got)
			}
		})
	}
}
