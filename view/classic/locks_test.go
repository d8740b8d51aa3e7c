package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// waited makes the answers of two locks: a mutex that is waited for in two places of a function,
// and a futex.
func waited(t *testing.T) *view.Frame {
	t.Helper()
	const pipe = "vmlinux`sys_write+0x9;vmlinux`pipe_write+0x43;vmlinux`__mutex_lock.constprop.0+0x12"
	const other = "vmlinux`sys_write+0x9;vmlinux`pipe_write+0x77;vmlinux`__mutex_lock.constprop.0+0x12"
	const user = "libc.so.6`clone3+0x2;prog`work+0x1;prog`holdIt+0x38;libc.so.6`__lll_lock_wait+0x1"
	dist := func(sentence string, at string, values ...uint64) *measure.Answer {
		a := viewtest.Answer(t, sentence, measure.Dists, true, at+" 0")
		var d measure.Dist
		for _, v := range values {
			d.Add(v, 1)
		}
		a.Series[0].Values = nil
		a.Series[0].SetDists([]measure.Dist{d})
		return a
	}
	f := viewtest.Frame(
		viewtest.Answer(
			t, "lock.wait.count by kind,stack", measure.Delta, true, "mutex "+pipe+" 3",
			"mutex "+other+" 1",
		),
		viewtest.Answer(
			t, "lock.wait.time by kind,stack", measure.Delta, true, "mutex "+pipe+" 0.000003",
			"mutex "+other+" 0.000001",
		),
		viewtest.Answer(
			t, "lock.wait.max by kind,stack", measure.Level, false, "mutex "+pipe+" 1500",
			"mutex "+other+" 1000",
		),
		dist("lock.wait.dist by kind,stack", "mutex "+pipe, 500, 1000, 1500),
		viewtest.Answer(
			t, "futex.wait.count by kind,stack", measure.Delta, true, "futex "+user+" 2",
		),
		viewtest.Answer(
			t, "futex.wait.time by kind,stack", measure.Delta, true, "futex "+user+" 0.000016",
		),
		viewtest.Answer(
			t, "futex.wait.max by kind,stack", measure.Level, false, "futex "+user+" 9000",
		),
	)
	return f
}

func TestLocksTable(t *testing.T) {
	for _, c := range []struct {
		name string
		o    view.Options
		want string
	}{
		{"by place", view.Options{}, `2 80 80 16.0us 8.00us 9.00us futex prog` + "`" + `holdIt+0x38
3 15 95 3.00us 1.00us 1.50us mutex pipe_write+0x43
1 5 100 1.00us 1.00us 1.00us mutex pipe_write+0x77`},
		{"by function", view.Options{"coalesce": {""}, "kernel": {""}}, `4 100 100 4.00us 1.00us 1.50us mutex pipe_write`},
		{"by kind", view.Options{"by": {"kind"}}, `2 80 80 16.0us 8.00us 9.00us futex Caller?
4 20 100 4.00us 1.00us 1.50us mutex Caller?`},
		{"of programs", view.Options{"user": {""}}, `2 100 100 16.0us 8.00us 9.00us futex prog` + "`" + `holdIt+0x38`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := viewtest.Text(
				locksTable(c.o, waited(t)), "count", "indv_ratio", "cuml_ratio", "wait_ns",
				"mean_ns", "max_ns", "kind", "Caller",
			)
			if strings.TrimSpace(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	if got := locksTable(view.Options{}, waited(t)).Title; got != "6 waits in 1.0 s (6.0/s), 20.0us waited" {
		t.Error(got)
	}
}

func TestLocksJSON(t *testing.T) {
	tab := locksTable(view.Options{"stacks": {"1"}, "hist": {""}, "kernel": {""}}, waited(t))
	tab.Rows = tab.Rows[:1]
	got := string(view.AppendJSON(nil, tab))
	const want = `"rows":[{"count":3,"count_per_s":3,"indv_ratio":0.75,"cuml_ratio":0.75,"wait_ns":3000,"mean_ns":1000,"max_ns":1500,"kind":"mutex","caller":"vmlinux` + "`" + `pipe_write+0x43",` +
		`"stack":["vmlinux` + "`" + `pipe_write+0x43"],"hist":[{"from_ns":256,"count":1},{"from_ns":512,"count":1},{"from_ns":1024,"count":1}]}]`
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const below = `      nsec ------ Time Distribution ------ count   Stack
       256 |@@@@@@@@@@                    1        pipe_write+0x43
       512 |@@@@@@@@@@                    1
      1024 |@@@@@@@@@@                    1
`
	if got := tab.Rows[0].Details; got != below {
		t.Errorf("below it is\n%s", got)
	}
}

// What was not measured is no zero, and what can't be is not shown.
func TestLocksUnknown(t *testing.T) {
	if got := locksTable(view.Options{}, viewtest.Frame()).Title; got != "not measured" {
		t.Error(got)
	}
	none := viewtest.Answer(t, "lock.wait.count by kind,stack", measure.Delta, true)
	if tab := locksTable(view.Options{}, viewtest.Frame(none)); tab.Title != "0 waits in 1.0 s (0/s), 0ns waited" ||
		len(tab.Rows) != 0 {
		t.Errorf("%q, %v", tab.Title, tab.Rows)
	}
	odd := viewtest.Frame(
		viewtest.Answer(t, "lock.wait.count by kind,stack", measure.Delta, true, "mutex '' 2"),
		viewtest.Answer(
			t, "lock.wait.time by kind,stack", measure.Delta, true, "mutex '' 0.000002",
		),
		viewtest.Answer(
			t, "lock.wait.max by kind,stack", measure.Level, false, "mutex '' 5000", "mutex f 7",
		),
	)
	oddTable := locksTable(view.Options{}, odd)
	got := strings.TrimSpace(viewtest.Text(oddTable, "count", "wait_ns", "max_ns", "Caller"))
	if got != "2 2.00us - [no frames]" {
		t.Error(got)
	}
}

// Over several intervals counts and times add up, and the longest wait is the longest of all.
func TestLocksMean(t *testing.T) {
	m := view.Mean{Peaks: Locks().Peaks}
	first, second := waited(t), waited(t)
	second.Answers[2].Series[0].Values[0] = 1700
	m.Add(first)
	m.Add(second)
	got := viewtest.Text(
		locksTable(view.Options{"kernel": {""}}, m.Frame()), "count", "count_per_s", "wait_ns",
		"max_ns", "Caller",
	)
	if want := "6 3 6.00us 1.70us pipe_write+0x43\n2 1 2.00us 1.00us pipe_write+0x77"; strings.TrimSpace(
		got,
	) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWaitsIn(t *testing.T) {
	for _, c := range []struct {
		frames string
		user   bool
		want   int
	}{
		{"vmlinux`__mutex_lock+0x1;vmlinux`schedule+0x1;vmlinux`f+0x1", false, 2},
		{"libc.so.6`futex_wait+0x1;prog`f+0x2", true, 1},
		{"libc.so.6`futex_wait+0x1;[no unwind table: libc.so.6]", true, -1},
		{"libc.so.6`futex_wait+0x1;0x48d063", true, 1},
		{"prog`__lll_lock_wait+0x1;prog`__pthread_mutex_lock+0x112;prog`f+0x1", true, 2},
		{"", true, -1},
	} {
		var frames []string
		if c.frames != "" {
			frames = strings.Split(c.frames, ";")
		}
		if got := WaitFrame(frames, c.user); got != c.want {
			t.Errorf("%s: %d", c.frames, got)
		}
	}
}

func TestBriefTime(t *testing.T) {
	for nanos, want := range map[float64]string{
		0: "0ns", 834: "834ns", 999.4: "999ns", 999.6: "1.00us", 1250: "1.25us", 12500: "12.5us",
		99960: "100us", 999600: "1.00ms", 3.41e9: "3.41s", 1234e9: "1234s",
	} {
		if got := view.FormatNanos(nanos); got != want {
			t.Errorf("%g is %s, want %s", nanos, got, want)
		}
	}
}
