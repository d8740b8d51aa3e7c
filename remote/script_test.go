package remote

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"culprit/dataset"
	"culprit/measure"
)

// fakeScript is a script whose statistics are those of seconds.
type fakeScript struct {
	*seconds
	ended chan struct{}
	once  sync.Once
	fails error
}

func (f *fakeScript) Ended() <-chan struct{} { return f.ended }
func (f *fakeScript) Err() error             { return f.fails }
func (f *fakeScript) Stop()                  { f.once.Do(func() { close(f.ended) }) }
func (f *fakeScript) Output() string         { return "hello\n" }
func (f *fakeScript) Losses() []measure.Loss { return []measure.Loss{{Reason: "full", Events: 3}} }
func (f *fakeScript) Notes() []string        { return []string{"a note"} }

func TestScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		var newest atomic.Pointer[fakeScript]
		config := Config{Sources: []measure.Source{&seconds{id: "a.b.c"}}}
		config.StartScript = func(k measure.Script) (dataset.Runner, error) {
			if k.Text == "wrong" {
				return nil, &measure.Diagnostic{Text: "wrong", Pos: 1, Len: 2, Message: "bad"}
			}
			starts.Add(1)
			script := &fakeScript{seconds: &seconds{id: "trace.x.y"}, ended: make(chan struct{})}
			newest.Store(script)
			return script, nil
		}
		r := NewRecorder(config)
		c := NewClient()
		cut := connect(t, r, c)
		var mistake *measure.Diagnostic
		_, err := c.StartScript(RoleTrace, measure.Script{Name: "x", Text: "wrong"})
		if !errors.As(err, &mistake) || mistake.Pos != 1 || mistake.Len != 2 {
			t.Errorf("a wrong script: %v", err)
		}
		// A script that does not start leaves the sources alone.
		var fixed got
		ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		err = source(t, c).Run(ctx, []measure.Query{query(t, "a.b.c by n")}, &fixed)
		if stop(); err != nil || len(fixed.at) != 2 {
			t.Errorf("the run reports %v, %v", fixed.at, err)
		}
		k := measure.Script{Name: "x", Text: "right", Budget: 0.5}
		s, err := c.StartScript(RoleTrace, k)
		if err != nil {
			t.Fatal(err)
		}
		var runner dataset.Runner = s // what the server takes it for
		time.Sleep(1500 * time.Millisecond)
		if runner.Output() != "hello\n" || len(runner.Losses()) != 1 || len(runner.Notes()) != 1 ||
			len(runner.Stats()) != 2 || runner.Err() != nil {
			t.Errorf("%q, %v, %v", runner.Output(), runner.Losses(), runner.Notes())
		}

		// The client dies: another one takes the script over.
		cut()
		c2 := NewClient()
		cut = connect(t, r, c2)
		s2, err := c2.StartScript(RoleTrace, k)
		if err != nil || starts.Load() != 1 {
			t.Fatalf("%d starts, %v", starts.Load(), err)
		}
		time.Sleep(time.Minute)
		if s2.Output() != "hello\n" {
			t.Errorf("the output is %q", s2.Output())
		}

		// The recorder dies: the script is started again, and its statistics go on.
		cut()
		r.Close()
		r = NewRecorder(config)
		cut = connect(t, r, c2)
		time.Sleep(time.Second)
		if starts.Load() != 2 {
			t.Errorf("%d starts", starts.Load())
		}
		var g got
		ctx, stop = context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		if err := s2.Run(ctx, []measure.Query{query(t, "trace.x.y by word")}, &g); err != nil {
			t.Error(err)
		}
		if !g.consecutive() || len(g.at) != 3 {
			t.Errorf("seconds %v", g.at)
		}

		// It fails by itself.
		newest.Load().fails = fmt.Errorf("too much: %w", measure.ErrUnclear)
		newest.Load().Stop()
		<-s2.Ended()
		if err := s2.Err(); !errors.Is(err, measure.ErrUnclear) {
			t.Errorf("it ended with %v", err)
		}
		s3, err := c2.StartScript(RoleTrace, k)
		if err != nil {
			t.Fatal(err)
		}
		s3.Stop()
		<-newest.Load().Ended()
		cut()
		r.Close()
		// the first client has no recorder any more
		s.quit()
		c.mu.Lock()
		close(c.again)
		c.again = make(chan struct{})
		c.mu.Unlock()
		<-s.Ended()
	})
}

func TestSample(t *testing.T) {
	want := &Sampled{
		Began: 7, Took: measure.Second, CPUs: 3, Notes: []string{"n"}, CPU: 5, Away: 9,
		Loss: []measure.Loss{{Reason: "r", Events: 2}}, Untimed: 11,
	}
	for i := range 20000 { // several parts
		want.Samples = append(want.Samples, Sample{
			Process: fmt.Sprint("p", i%7), Count: int64(i), Amount: int64(3 * i), Kernel: []string{},
			State: fmt.Sprint("s", i%3),
			User:  []string{fmt.Sprint("libc.so.6`function_", i), "main"},
			Times: []SampleTime{{measure.Span(1e15 + i), 70}, {measure.Span(1e15 + 2*i), 7}},
		})
	}
	var asked Sampling
	r := NewRecorder(Config{Sample: func(ctx context.Context, q Sampling) (*Sampled, error) {
		asked = q
		if q.Hz == 2 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return want, nil
	}})
	c := NewClient()
	cut := connect(t, r, c)
	q := Sampling{
		Of: "off-cpu", Hz: 99, CPUs: []int{1, 4}, For: measure.Second, User: true, Times: true,
		PIDs: []int{7}, TIDs: []int{8, 9}, Processes: []string{"nginx"},
		Cgroups: []string{"/a", "/b"},
	}
	got, err := c.Sample(t.Context(), RoleTrace, q)
	if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(asked, q) {
		t.Errorf("%v, %d samples of %d, asked %v", err, len(got.Samples), len(want.Samples), asked)
	}
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, stop)
	if _, err := c.Sample(ctx, RoleTrace, Sampling{Hz: 2, For: measure.Second}); !errors.Is(
		err, context.Canceled,
	) {
		t.Errorf("a stopped sampling: %v", err)
	}
	cut()
	r.Close() // waits for it
}
