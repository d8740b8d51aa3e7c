package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
)

func timedProfile(t testing.TB, text string) *Tree {
	t.Helper()
	tree, err := Read(context.Background(), strings.NewReader(text), "", Options{Times: true})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// moments returns the moments as text: thread, stack, and the begin and the length in ms.
func moments(t *Tree) []string {
	var out []string
	for _, m := range t.Times.Moments {
		var names []string
		for n := m.Node; n > 0; n = t.Parent[n] {
			names = append(names, t.Name(int(n)))
		}
		slices.Reverse(names)
		out = append(out, fmt.Sprintf("%s: %s %.6g+%.6g", t.Times.Threads[m.Thread],
			strings.Join(names, ";"), m.At/1e6, m.For/1e6))
	}
	return out
}

// checkAmounts checks that the moments of each node add up to its own amount, and that no moment
// overlaps the next one of its thread.
func checkMoments(t *testing.T, tree *Tree) {
	t.Helper()
	if tree.Times == nil {
		t.Fatal("there are no times")
	}
	sums := make([]float64, tree.Len())
	for i, m := range tree.Times.Moments {
		sums[m.Node] += m.Amount
		if i+1 < len(tree.Times.Moments) {
			next := tree.Times.Moments[i+1]
			if next.Thread == m.Thread && m.At+m.For > next.At+1e-6*next.At {
				t.Errorf("moment %d ends at %v, the next begins at %v", i, m.At+m.For, next.At)
			}
		}
	}
	for n, self := range tree.Self {
		if math.Abs(sums[n]-self) > 1e-9*max(1, self) {
			t.Errorf("%s: moments have %v, the node has %v", tree.Name(n), sums[n], self)
		}
	}
}

// perfTimes is perf script's output of two threads. The first one waits between its second and its
// third sample.
const perfTimes = `web 7/7 [000] 100.000000: 10 cycles:
	    1 leaf (/bin/web)
	    2 main (/bin/web)

web 7/8 [001] 100.005000: 70 cycles:
	    4 work (/bin/web)

web 7/7 [000] 100.010000: 20 cycles:
	    3 other (/bin/web)
	    2 main (/bin/web)

web 7/7 [000] 100.500000: 30 cycles:
	    1 leaf (/bin/web)
	    2 main (/bin/web)

web 7/7 [000] 100.510000: 40 cycles:
	    1 leaf (/bin/web)
	    2 main (/bin/web)

`

func TestTimelineOfPerf(t *testing.T) {
	tree := timedProfile(t, perfTimes)
	checkMoments(t, tree)
	want := []string{
		"web 7: web;main;leaf 0+10", "web 7: web;main;other 10+10", "web 7: web;main;leaf 500+10",
		"web 7: web;main;leaf 510+10", "web 8: web;work 5+10",
	}
	if got := moments(tree); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if usual := tree.Times.Usual; math.Abs(usual-10e6) > 1 {
		t.Errorf("a sample counts for %v ns", usual)
	}
	if got := profileOf(t, perfTimes); got.Times != nil {
		t.Error("a reader that was not asked for times has some")
	}
}

// TestTimelineOfTrace checks that two calls after one another are apart, and that there is no
// moment where nothing ran.
func TestTimelineOfTrace(t *testing.T) {
	tree := timedProfile(t, `[
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"ui"}},
{"ph":"X","name":"frame","pid":1,"tid":2,"ts":1000,"dur":3000},
{"ph":"X","name":"paint","pid":1,"tid":2,"ts":1000,"dur":1000},
{"ph":"X","name":"paint","pid":1,"tid":2,"ts":2000,"dur":1000},
{"ph":"X","name":"frame","pid":1,"tid":2,"ts":9000,"dur":500}]`)
	checkMoments(t, tree)
	want := []string{
		"ui: frame;paint 0+1", "ui: frame;paint 1+1", "ui: frame 2+1", "ui: frame 8+0.5",
	}
	if got := moments(tree); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	var kept []int32
	for _, m := range tree.Times.Moments {
		kept = append(kept, m.Kept)
	}
	if want := []int32{0, 1, 1, 0}; !slices.Equal(kept, want) {
		t.Errorf("functions that went on: %v, want %v", kept, want)
	}
}

// TestThreadsOfOneName checks that threads of one name are apart.
func TestThreadsOfOneName(t *testing.T) {
	tree := timedProfile(t, `[
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"pool"}},
{"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"pool"}},
{"ph":"X","name":"a","pid":1,"tid":2,"ts":0,"dur":5},
{"ph":"X","name":"b","pid":1,"tid":3,"ts":2,"dur":5}]`)
	checkMoments(t, tree)
	if got := tree.Times.Threads; len(got) != 2 || len(tree.Times.Moments) != 2 {
		t.Errorf("threads %q, moments %q", got, moments(tree))
	}
}

func TestTimelineOfFirefox(t *testing.T) {
	tree := timedProfile(t, geckoTimes)
	checkMoments(t, tree)
	want := []string{"GeckoMain (process 5): main;a 0+1", "GeckoMain (process 5): main 1+1",
		"GeckoMain (process 5): main;a 7+1"}
	if got := moments(tree); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// geckoTimes is a profile in Firefox's processed form: samples at 3, 4 and 10 ms.
const geckoTimes = `{"meta":{"version":29,"interval":1},"threads":[{"name":"GeckoMain","pid":"5",
"samples":{"stack":[1,0,1],"timeDeltas":[3,1,6],"length":3},
"stackTable":{"frame":[0,1],"prefix":[null,0],"length":2},
"frameTable":{"func":[0,1],"line":[7,9],"length":2},
"funcTable":{"name":[0,1],"fileName":[2,2],"lineNumber":[5,8],"length":2},
"stringArray":["main","a","app.js"]}]}`

func TestTimelineOfSpeedscope(t *testing.T) {
	tree := timedProfile(t, `{"$schema":"https://www.speedscope.app/file-format-schema.json",
"shared":{"frames":[{"name":"main"},{"name":"work"}]},"profiles":[
{"type":"evented","name":"one","unit":"milliseconds","startValue":0,"endValue":9,"events":[
{"type":"O","frame":0,"at":0},{"type":"O","frame":1,"at":2},{"type":"C","frame":1,"at":5},
{"type":"C","frame":0,"at":6}]},
{"type":"sampled","name":"two","unit":"milliseconds","startValue":3,"endValue":9,
"samples":[[0],[],[0,1]],"weights":[1,2,3]}]}`)
	checkMoments(t, tree)
	want := []string{"one: main 0+2", "one: main;work 2+3", "one: main 5+1", "two: main 3+1",
		"two:  4+2", "two: main;work 6+3"}
	if got := moments(tree); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestTimelineSurvives checks that regrouping, pruning and the columns keep the sums.
func TestTimelineSurvives(t *testing.T) {
	tree := timedProfile(t, perfTimes)
	pruned := tree.Prune(25)
	for _, m := range pruned.Times.Moments { // those of a call that was dropped are its caller's
		for n := m.Node; n >= 0; n = pruned.Parent[n] {
			pruned.Total[n] -= m.Amount
		}
	}
	if want := make([]float64, pruned.Len()); !slices.Equal(pruned.Total, want) ||
		pruned.Len() == tree.Len() {
		t.Errorf("the totals of %d calls are off by %v", pruned.Len(), pruned.Total)
	}
	checkMoments(t, tree.ByName())
	got, err := ParseColumns(columnsOf(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	checkMoments(t, got)
	if !reflect.DeepEqual(moments(got), moments(tree)) {
		t.Errorf("%q", moments(got))
	}
	leastTree, err := Read(context.Background(), strings.NewReader(perfTimes), "",
		Options{Times: true, Least: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	if len(leastTree.Times.Moments) != 5 || leastTree.Len() >= tree.Len() {
		t.Errorf("%q of %d nodes", moments(leastTree), leastTree.Len())
	}
}

// TestTimelineIsBounded checks that a long profile has a bounded timeline that says what it lacks,
// and that the limit of memory counts it.
func TestTimelineIsBounded(t *testing.T) {
	o := Options{Times: true, meter: newMeter(context.Background(), 0)}
	timer := o.timer(true)
	for i := range maxMoments + 3 {
		timer.add(Moment{At: float64(i), Amount: 1, Thread: timer.thread("t", []byte("t"))})
	}
	if l := timer.timeline(nil); len(l.Moments) != maxMoments || l.Left != 3 {
		t.Errorf("%d moments, %d left out", len(l.Moments), l.Left)
	}
	for i := range maxTimelineThreads + 5 {
		timer.thread(strconv.Itoa(i), nil)
	}
	if n := len(timer.line.Threads); n != maxTimelineThreads {
		t.Errorf("%d threads", n)
	}
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "p %d [000] %d.5: 1 cycles:\n\t1 f (/x)\n\n", i%5000, i)
	}
	_, err := Read(context.Background(), strings.NewReader(b.String()), "",
		Options{Times: true, Memory: 4 << 20})
	var memory *MemoryError
	if !errors.As(err, &memory) {
		t.Errorf("the timeline of 200,000 samples fits 4 MiB: %v", err)
	}
}

// TestTimelineOfHostileTimes checks that times that are no numbers, or absurd, are counted and not
// drawn.
func TestTimelineOfHostileTimes(t *testing.T) {
	o := Options{Times: true}
	timer := o.timer(true)
	for _, at := range []float64{math.NaN(), math.Inf(1), -1e300, 5, 5, 5} {
		timer.add(Moment{At: at, Amount: 1, Thread: timer.thread("t", []byte("t"))})
	}
	l := timer.timeline(nil)
	if len(l.Moments) != 3 || l.Left != 3 {
		t.Fatalf("%+v", l)
	}
	for i, m := range l.Moments {
		if want := float64(i) * m.For; !(m.For > 0) || math.Abs(m.At-want) > 1e-3 {
			t.Errorf("sample %d of one time: %+v", i, m)
		}
	}
}

// TestTimelinesOfAllFormats checks the sums of the inputs of the tests that have times.
func TestTimelinesOfAllFormats(t *testing.T) {
	inputs := map[string]string{"perf": perfText, "v8": v8Text, "v8Times": `{"nodes":[
{"id":1,"callFrame":{"functionName":"(root)"},"children":[2]},
{"id":2,"callFrame":{"functionName":"f","url":"a.js","lineNumber":1}}],
"startTime":0,"endTime":30,"samples":[2,1,2],"timeDeltas":[5,10,10]}`}
	for _, c := range perfCorpus {
		inputs["perf "+c.name] = c.in
	}
	for _, c := range jsonCorpus {
		inputs["JSON "+c.name] = c.in
	}
	files, err := filepath.Glob("testdata/corpus/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // a directory
		}
		inputs[name] = string(b)
	}
	timed := 0
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			tree, err := Read(context.Background(), strings.NewReader(in), "",
				Options{Times: true})
			if err != nil || tree.Times == nil || tree.Times.Left > 0 {
				return
			}
			timed++
			checkMoments(t, tree)
			checkLines(t, tree)
		})
	}
	if timed < 10 {
		t.Errorf("%d inputs have times", timed)
	}
}

// FuzzTimes checks the sums of the timeline of any input, and the memory that it takes.
func FuzzTimes(f *testing.F) {
	for _, s := range []string{perfText, perfTimes, geckoTimes, v8Text} {
		f.Add([]byte(s))
	}
	for _, c := range jsonCorpus {
		f.Add([]byte(c.in))
	}
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, in []byte) {
		if bytes.HasPrefix(in, []byte{0x1f, 0x8b}) {
			return // the unpacked text is larger than the input
		}
		var tree *Tree
		var err error
		heapBound(t, len(in), func() {
			tree, err = Read(never, bytes.NewReader(in), "f", Options{Times: true})
		})
		if err != nil || tree.Times == nil {
			return
		}
		for i, m := range tree.Times.Moments {
			if m.Node < 0 || int(m.Node) >= tree.Len() || !finite(m.At) || !finite(m.For) ||
				!finite(m.Amount) || int(m.Thread) >= len(tree.Times.Threads) || m.Kept < -1 {
				t.Fatalf("moment %d: %+v", i, m)
			}
		}
		if _, err := ParseColumns(columnsOf(t, tree)); err != nil {
			t.Fatal(err)
		}
	})
}
