package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// seconds is a source that counts seconds: the value of row i of a tick is 100 times the second
// plus i. Each tick has one new word.
type seconds struct {
	id      measure.StatID
	err     error         // at the end of a run
	stopped chan struct{} // closed at the end of the first run; nil: not wanted
	once    sync.Once
}

func (s *seconds) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID: s.id, Kind: measure.Delta, Unit: measure.Events, Help: "test",
			Fields: []measure.Field{
				{
					Name: "word",
					Type: measure.Word,
					Help: "w",
				}, {Name: "n", Type: measure.Number, Help: "n"},
			},
			Whole: measure.Whole{Query: "a.b.c", Rest: "rest"},
		},
		{ID: s.id + "_idle", Kind: measure.Level, Unit: measure.Bytes, Fold: measure.Max},
	}
}

func (s *seconds) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if s.stopped != nil {
		defer s.once.Do(func() { close(s.stopped) })
	}
	t := time.NewTicker(queries[0].Step.AsDuration())
	defer t.Stop()
	words := []string{"0", "1"}
	b := &measure.Batch{Stat: s.id, By: []string{"word", "n"}}
	shape := measure.NewShape()
	for {
		select {
		case <-ctx.Done():
			return s.err
		case now := <-t.C:
			end := measure.Time(now.UnixNano())
			words = append(words, fmt.Sprint("at ", int64(end)/1e9))
			b.Over = measure.Interval{Start: end.Add(-queries[0].Step), End: end}
			b.Labels, b.Shape = words, shape
			b.Keys = append(b.Keys[:0], 0, 1, 1, 0)
			if end/1e9%5 == 0 { // other rows
				b.Keys = append(b.Keys[:0], measure.Label(len(words)-1), 1, 1, 0)
				b.Shape = measure.NewShape()
			}
			b.Values = append(b.Values[:0], float64(100*(end/1e9)), float64(100*(end/1e9)+1))
			if err := sink.Accept([]*measure.Batch{b}); err != nil {
				return err
			}
		}
	}
}

func (s *seconds) Cost(id measure.StatID) measure.Span {
	if id != s.id {
		return 0
	}
	return measure.Span(time.Now().UnixNano() / 1000)
}

func (s *seconds) Problems() []measure.Problem {
	return []measure.Problem{{Key: "k", Text: "t"}}
}

func (s *seconds) ExternalCost() measure.Span { return 2 * s.Cost(s.id) }

// connect connects a client to a recorder. cut ends the connection and waits for both ends.
func connect(t *testing.T, r *Recorder, c *Client) (cut func()) {
	t.Helper()
	a, b := net.Pipe()
	var both sync.WaitGroup
	both.Go(func() {
		if err := r.Serve(a); errors.Is(err, wire.ErrInvalid) {
			t.Errorf("the recorder says %v", err)
		}
	})
	both.Go(func() {
		if err := c.Serve(b); errors.Is(err, wire.ErrInvalid) {
			t.Errorf("the client says %v", err)
		}
	})
	return func() {
		_ = b.Close() // the other end sees it
		both.Wait()
	}
}

func source(t *testing.T, c *Client) measure.Source {
	t.Helper()
	all, err := c.Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func query(t *testing.T, text string) measure.Query {
	t.Helper()
	q, err := measure.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	q.Step = measure.Second
	return q
}

// got collects what a run reports: the second of each tick, and the notes.
type got struct {
	mu    sync.Mutex
	at    []int64
	rows  []string
	notes []string
}

func (g *got) Accept(all []*measure.Batch) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range all {
		second := int64(b.Over.End) / 1e9
		g.at = append(g.at, second)
		g.notes = append(g.notes, b.Notes...)
		for i := range b.Rows() {
			k := b.Key(i)
			g.rows = append(
				g.rows, fmt.Sprint(b.Labels[k[0]], ",", b.Labels[k[1]], "=", int64(b.Values[i])),
			)
			if b.Values[i] != float64(100*second+int64(i)) {
				return fmt.Errorf("row %d of second %d is %v", i, second, b.Values[i])
			}
		}
	}
	return nil
}

// consecutive reports whether each second follows the one before.
func (g *got) consecutive() bool {
	for i := range g.at {
		if i > 0 && g.at[i] != g.at[i-1]+1 {
			return false
		}
	}
	return len(g.at) > 0
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu := measure.Span(0)
		r := NewRecorder(Config{
			Sources: []measure.Source{&seconds{id: "a.b.c"}},
			Usage: func() Usage {
				cpu += measure.Millisecond
				return Usage{CPU: cpu, Memory: 7 << 20}
			},
		})
		c := NewClient()
		cut := connect(t, r, c)
		s := source(t, c)
		if want := (&seconds{id: "a.b.c"}).Stats(); !reflect.DeepEqual(s.Stats(), want) {
			t.Errorf("the statistics are %+v, want %+v", s.Stats(), want)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer stop()
		var g got
		if err := s.Run(ctx, []measure.Query{query(t, "a.b.c by word,n")}, &g); err != nil {
			t.Error(err)
		}
		if !g.consecutive() || len(g.at) != 10 {
			t.Errorf("seconds %v", g.at)
		}
		word := fmt.Sprintf("at %d,1=%d", g.at[4]/5*5, g.at[4]/5*500)
		if !slices.Contains(g.rows, word) {
			t.Errorf("%q is not one of %q", word, g.rows)
		}
		// The first tick only shows where the counters are.
		spent := measure.Span((g.at[9] - g.at[0]) * 1e6)
		if own := s.(measure.ExternalMeter); own.Cost("a.b.c") != spent ||
			own.ExternalCost() != 2*spent || own.Cost("a.b.c_idle") != 0 || own.Cost("x") != 0 {
			t.Errorf(
				"the costs are %v and %v, want %v", own.Cost("a.b.c"), own.ExternalCost(), spent,
			)
		}
		if p := s.(measure.ProblemReporter).Problems(); len(p) != 1 || p[0].Text != "t" {
			t.Errorf("the problems are %v", p)
		}
		if c.CPU() != 9*measure.Millisecond || c.Memory() != 7<<20 {
			t.Errorf("the recorder takes %v and %d bytes", c.CPU(), c.Memory())
		}
		cut()
		r.Close()
	})
}

// A client that is killed and started again gets every second that the first one may not have
// stored: not those that it acknowledged.
func TestClientRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}})
		queries := []measure.Query{query(t, "a.b.c by n,word"), query(t, "a.b.c_idle")}
		ctx, stop := context.WithCancel(t.Context())
		var first, second got
		c := NewClient()
		cut := connect(t, r, c)
		var runs sync.WaitGroup
		runs.Go(func() { _ = source(t, c).Run(ctx, queries, &first) }) // it is killed
		time.Sleep(20500 * time.Millisecond)
		cut()
		time.Sleep(7 * time.Second)
		stop()
		runs.Wait()

		newest := first.at[len(first.at)-1]
		c = NewClient()
		cut = connect(t, r, c)
		ctx, stop = context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		other := []measure.Query{query(t, "a.b.c_idle"), query(t, "a.b.c by word,n")} // the same
		if err := source(t, c).Run(ctx, other, &second); err != nil {
			t.Error(err)
		}
		if !first.consecutive() || !second.consecutive() || second.at[0] > newest-1 ||
			second.at[0] < newest-5 {
			t.Errorf("seconds %v, then %v", first.at, second.at)
		}
		if n := len(second.at); n < 2+7+4 {
			t.Errorf("only %d seconds: %v", n, second.at)
		}
		if len(second.notes) > 0 {
			t.Errorf("notes %q", second.notes)
		}
		cut()
		r.Close()
	})
}

// What no client continues is stopped.
func TestOrphansStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &seconds{id: "a.b.c", stopped: make(chan struct{})}
		r := NewRecorder(Config{Sources: []measure.Source{src}})
		ctx, stop := context.WithCancel(t.Context())
		c := NewClient()
		cut := connect(t, r, c)
		var runs sync.WaitGroup
		queries := []measure.Query{query(t, "a.b.c")}
		runs.Go(func() { _ = source(t, c).Run(ctx, queries, &got{}) }) // it is killed
		time.Sleep(3 * time.Second)
		cut()
		stop()
		runs.Wait()
		time.Sleep(time.Hour)
		cut = connect(t, r, NewClient())
		time.Sleep(orphanTime - time.Second)
		select {
		case <-src.stopped:
			t.Error("it was stopped before its time")
		default:
		}
		time.Sleep(2 * time.Second)
		select {
		case <-src.stopped:
		default:
			t.Error("it still runs")
		}
		cut()
		r.Close()
	})
}

// Without a client the newest minute is kept, and the first tick after what is missing says so.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}})
		queries := []measure.Query{query(t, "a.b.c by word")}
		ctx, stop := context.WithCancel(t.Context())
		c := NewClient()
		cut := connect(t, r, c)
		var first, second got
		var runs sync.WaitGroup
		runs.Go(func() { _ = source(t, c).Run(ctx, queries, &first) }) // it is killed
		time.Sleep(3500 * time.Millisecond)
		cut()
		stop()
		runs.Wait()
		time.Sleep(10 * time.Minute)
		r.mu.Lock()
		if n := len(r.runs[0].backlog.ticks); n != 61 || r.bytes != r.runs[0].backlog.bytes {
			t.Errorf("%d ticks of %d bytes wait, %d in sum", n, r.runs[0].backlog.bytes, r.bytes)
		}
		r.mu.Unlock()
		c = NewClient()
		cut = connect(t, r, c)
		ctx, stop = context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_ = source(t, c).Run(ctx, queries, &second) // the test above looks at the error
		if !second.consecutive() || len(second.at) < 61 ||
			second.at[0] <= first.at[len(first.at)-1] {
			t.Errorf("seconds %v, then %v", first.at, second.at)
		}
		if !slices.Equal(second.notes, []string{noteDropped}) {
			t.Errorf("notes %q", second.notes)
		}
		cut()
		r.Close()
	})
}

// A recorder that is killed and started again goes on, and the data says so.
func TestRecorderRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries := []measure.Query{query(t, "a.b.c by word")}
		c := NewClient()
		r := NewRecorder(Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}})
		cut := connect(t, r, c)
		s := source(t, c)
		var first, second got
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context(), queries, &first) }()
		time.Sleep(3500 * time.Millisecond)
		spent := s.(measure.Meter).Cost("a.b.c")
		cut()
		r.Close()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("the run ended before there was another recorder: %v", err)
		default:
		}
		r = NewRecorder(Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}})
		cut = connect(t, r, c)
		var again interface{ Restarted() bool }
		if err := <-ended; !errors.As(err, &again) || !again.Restarted() {
			t.Errorf("the run ended with %v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer stop()
		if err := s.Run(ctx, queries, &second); err != nil {
			t.Error(err)
		}
		if len(first.at) != 3 || len(second.at) != 2 || len(first.notes) > 0 ||
			!slices.Equal(second.notes, []string{noteRestarted}) {
			t.Errorf("%v %q, then %v %q", first.at, first.notes, second.at, second.notes)
		}
		if more := s.(measure.Meter).Cost("a.b.c"); more != spent+measure.Span(1e6) {
			t.Errorf("the cost is %v after %v", more, spent)
		}
		cut()
		r.Close()
	})
}

// slow is a source whose readings take a while: the tick of a second comes 0.7 s after it.
type slow struct{ seconds }

func (s *slow) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	return s.seconds.Run(ctx, queries, measure.SinkFunc(func(b []*measure.Batch) error {
		time.Sleep(700 * time.Millisecond)
		return sink.Accept(b)
	}))
}

// A run that is stopped in the middle of a tick still reports that tick.
func TestTickInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(Config{Sources: []measure.Source{&slow{seconds{id: "a.b.c"}}}})
		c := NewClient()
		cut := connect(t, r, c)
		var g got
		ctx, stop := context.WithTimeout(t.Context(), 3300*time.Millisecond)
		defer stop()
		err := source(t, c).Run(ctx, []measure.Query{query(t, "a.b.c by n")}, &g)
		if err != nil || len(g.at) != 3 {
			t.Errorf("seconds %v, %v", g.at, err)
		}
		cut()
		r.Close()
	})
}

// Errors keep their kind, the missing right, and each position.
func TestErrors(t *testing.T) {
	mistake := &measure.Diagnostic{
		Text: "a\nb c", Pos: 2, Len: 3, Code: "syntax", Message: "wrong", Hint: "right",
	}
	other := &measure.Diagnostic{Text: "a\nb c", Pos: 4, Len: 1, Code: "x", Message: "y"}
	denied := &measure.Denied{Doing: "look", Needs: "CAP_BPF"}
	tests := []struct {
		name string
		err  error
		is   []error
		text []*measure.Diagnostic
	}{
		{
			"unsupported",
			fmt.Errorf("a: %w", measure.ErrUnsupported),
			[]error{measure.ErrUnsupported},
			nil,
		},
		{"unclear", measure.ErrUnclear, []error{measure.ErrUnclear}, nil},
		{"denied", fmt.Errorf("a: %w", denied), []error{measure.ErrDenied}, nil},
		{"too large", measure.ErrTooLarge, []error{measure.ErrTooLarge}, nil},
		{"one mistake", mistake, nil, []*measure.Diagnostic{mistake}},
		{"two mistakes", errors.Join(mistake, other), nil, []*measure.Diagnostic{mistake, other}},
		{"plain", errors.New("a"), nil, nil},
	}
	all := []error{
		measure.ErrUnsupported,
		measure.ErrDenied,
		measure.ErrUnclear,
		measure.ErrTooLarge,
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDecoder(appendError(nil, tt.err))
			err := d.error()
			if bad := d.End(); bad != nil || err == nil || err.Error() != tt.err.Error() {
				t.Fatalf("%v is %v, %v", tt.err, err, bad)
			}
			for _, is := range all {
				if errors.Is(err, is) != slices.Contains(tt.is, is) {
					t.Errorf("is %v: %v", is, errors.Is(err, is))
				}
			}
			if got := diagnostics(err); !reflect.DeepEqual(got, tt.text) {
				t.Errorf("the diagnostics are %v, want %v", got, tt.text)
			}
			var right *measure.Denied
			if errors.As(err, &right) && *right != *denied {
				t.Errorf("denied: %v", right)
			}
		})
	}
	d := newDecoder(appendError(nil, nil))
	if err := d.error(); err != nil || d.End() != nil {
		t.Errorf("no error is %v, %v", err, d.Err)
	}
}
