package prom

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"culprit/measure"
)

// long is two days of a device, tick by tick: 1,000 bytes per second and 7,000 in the first second
// of each minute, 1,100 per second in the mean. It also has a level of 1 that is 61 in the first
// second of each minute, 2 in the mean.
func long(t testing.TB) *memory {
	m := &memory{}
	m.record(t, measure.Delta, measure.Bytes, false, "net.device.bytes by device")
	m.record(t, measure.Level, measure.Count, false, "sched.load by window")
	bytes, load := map[string]float64{"eth0": 1000}, map[string]float64{"1m": 1}
	burst, high := map[string]float64{"eth0": 7000}, map[string]float64{"1m": 61}
	for s := measure.Time(1); s <= 2*86400; s++ {
		if s%60 == 1 {
			m.put("net.device.bytes", midnight+s*1e9, burst)
			m.put("sched.load", midnight+s*1e9, high)
			continue
		}
		m.put("net.device.bytes", midnight+s*1e9, bytes)
		m.put("sched.load", midnight+s*1e9, load)
	}
	return m
}

// numbers returns the values of the only row of a result.
func numbers(t testing.TB, result string) []float64 {
	t.Helper()
	r := rows(t, result)
	if len(r) != 1 {
		t.Fatalf("%d rows: %s", len(r), result)
	}
	var out []float64
	for _, points := range r {
		for _, v := range points {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, f)
		}
	}
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

const hour = 60 * measure.Minute

// TestGrid compares the queried cells with what the engine can use, and the numbers with the
// recorded ones.
func TestGrid(t *testing.T) {
	m := long(t)
	end := midnight.Add(2 * day)
	a := m.api(end)
	for _, c := range []struct {
		query string
		over  measure.Span
		step  int
		cell  measure.Span // of the main query
		want  float64      // each value
	}{
		{`rate(culprit_net_device_bytes_by_device_total[5m])`, hour, 60, measure.Second, 0},
		{`rate(culprit_net_device_bytes_by_device_total[1h])`, day, 600, 10 * measure.Second, 0},
		{`rate(culprit_net_device_bytes_by_device_total[5m])`, day, 600, 10 * measure.Second, 0},
		{`rate(culprit_net_device_bytes_by_device_total[40s])`, day, 3600, 5 * measure.Second, 0}, // at least five samples in a range
		{`increase(culprit_net_device_bytes_by_device_total[1m])`, day, 60, 10 * measure.Second, 0},
		{`sum(culprit_net_device_bytes_by_device_total) - sum(culprit_net_device_bytes_by_device_total offset 1h)`, 12 * hour, 600, 5 * measure.Second, 3600 * 1100},
		{`avg_over_time(culprit_sched_load[10m])`, day, 600, 10 * measure.Second, 2},
		{`max_over_time(culprit_sched_load[10m])`, day, 600, 10 * measure.Second, 61},
		{`min_over_time(culprit_sched_load[10m])`, day, 600, 10 * measure.Second, 1},
		{`count_over_time(culprit_sched_load[10m])`, day, 600, measure.Second, 600}, // depends on the number of samples
		{`sum_over_time(culprit_sched_load[10m])`, day, 600, measure.Second, 1200},
		{`culprit_sched_load`, hour, 60, measure.Second, 1}, // a moment is one sample
		{`culprit_sched_load`, day, 60, 10 * measure.Second, 1},
		{`culprit_sched_load`, day, 5, 5 * measure.Second, 0}, // at least one sample per step
	} {
		m.asked = nil
		form := []string{"query", c.query, "start", seconds(end.Add(-c.over)), "end", seconds(end),
			"step", strconv.Itoa(c.step)}
		if int(c.over/measure.Second)/c.step > maxPoints {
			form[3] = seconds(end.Add(-measure.Span(maxPoints*c.step) * measure.Second))
		}
		values := numbers(t, data(t, a, "query_range", form...))
		if m.asked[0].Step != c.cell {
			t.Errorf("%s over %v: asked in cells of %v, want %v", c.query, c.over, m.asked[0].Step,
				c.cell)
		}
		for _, v := range values {
			if c.want != 0 && !near(v, c.want) {
				t.Errorf("%s over %v: %v, want %v", c.query, c.over, v, c.want)
				break
			}
		}
		if len(values) < int(c.over/measure.Second)/c.step-1 && len(values) < maxPoints {
			t.Errorf("%s over %v: %d values", c.query, c.over, len(values))
		}
		// Whatever the cells, no byte is lost: the mean of the rates is that of the device, except
		// at the ends of ranges.
		if c.want == 0 && c.query != `culprit_sched_load` && c.step != 3600 && c.step != 60 {
			for _, v := range values {
				if math.Abs(v-1100) > 25 {
					t.Errorf("%s over %v: %v, want about 1100", c.query, c.over, v)
					break
				}
			}
		}
	}
}

// TestSameMoment checks that a counter has the same value at a moment in all queries.
func TestSameMoment(t *testing.T) {
	m := long(t)
	a := m.api(midnight.Add(2 * day))
	at := midnight.Add(
		day + 13*hour + 17*measure.Minute + 30*measure.Second,
	) // a multiple of all cells that are used
	want := float64(13*3600+17*60+30)*1000 + (13*60+18)*6000
	if got := numbers(t, data(t, a, "query", "query", `culprit_net_device_bytes_by_device_total`, "time", seconds(at)))[0]; got != want {
		t.Errorf("a moment: %v, want %v", got, want)
	}
	for _, step := range []int{10, 60, 3600} {
		start := at.Add(-measure.Span(step*500) * measure.Second)
		start = max(start, midnight.Add(measure.Minute))
		start += (at - start) % measure.Time(step*1e9)
		r := rows(
			t,
			data(t, a, "query_range", "query", `culprit_net_device_bytes_by_device_total`, "start",
				seconds(start), "end", seconds(at), "step", strconv.Itoa(step)),
		)
		for _, points := range r {
			if got := points[fmt.Sprint(float64(at)/1e9)]; got != strconv.FormatFloat(want, 'f', -1,
				64) {
				t.Errorf("in steps of %d: %q, want %v", step, got, want)
			}
		}
	}
	// All of yesterday, across its midnight.
	body := data(t, a, "query", "query", `increase(culprit_net_device_bytes_by_device_total[1d])`,
		"time", seconds(midnight.Add(day+hour)))
	if got := numbers(t, body)[0]; math.Abs(got-1100*86400) > 7000 {
		t.Errorf("increase over a day: %v, want %v but for a burst at the edge", got, 1100*86400)
	}
}

// TestOlder checks times of which only minutes or hours are kept: samples have the interval that
// the query needs, and the values of the minutes or hours.
func TestOlder(t *testing.T) {
	m := long(t)
	m.minute, m.fine = midnight.Add(12*hour), midnight.Add(36*hour+90*measure.Second)
	end := midnight.Add(2 * day)
	a := m.api(end)
	for _, c := range []struct {
		query string
		start measure.Span // since midnight
		over  measure.Span
		want  float64
	}{
		{`rate(culprit_net_device_bytes_by_device_total[5m])`, 2 * hour, 4 * hour, 1100},                // hours alone
		{`rate(culprit_net_device_bytes_by_device_total[5m])`, 14 * hour, 4 * hour, 1100},               // minutes alone
		{`increase(culprit_net_device_bytes_by_device_total[30m])`, 11 * hour, 26 * hour, 1100 * 1800},  // all three
		{`rate(culprit_net_device_bytes_by_device_total[10m])`, 35 * hour, 2 * hour, 1100},              // minutes, then seconds
		{`avg_over_time(culprit_sched_load[10m])`, 11 * hour, 26 * hour, 2},                             // means of all three
		{`max_over_time(culprit_sched_load[2h])`, 13 * hour, 24 * hour, 61},                             // the greatest is kept
		{`avg_over_time(culprit_net_device_bytes_by_device_per_second[2m])`, 2 * hour, 40 * hour, 1100}, // rates
	} {
		values := numbers(
			t,
			data(t, a, "query_range", "query", c.query, "start", seconds(midnight.Add(c.start)),
				"end", seconds(midnight.Add(c.start+c.over)), "step", "600"),
		)
		if len(values) != int(c.over/(600*measure.Second))+1 {
			t.Errorf("%s from %v over %v: %d values", c.query, c.start, c.over, len(values))
		}
		for _, v := range values {
			// rate() extrapolates before its first sample.
			if math.Abs(v-c.want) > 0.03*c.want {
				t.Errorf("%s from %v over %v: %v, want %v", c.query, c.start, c.over, v, c.want)
				break
			}
		}
	}
	// A moment of which only the hour is kept has the mean of the hour; a counter is interpolated.
	at := midnight.Add(5*hour + 30*measure.Minute)
	if got := numbers(t, data(t, a, "query", "query", `culprit_sched_load`, "time", seconds(at)))[0]; got != 2 {
		t.Errorf("a moment of an hour: %v, want 2", got)
	}
	if got, want := numbers(t, data(t, a, "query", "query", `culprit_net_device_bytes_by_device_total`, "time", seconds(at)))[0], 1100*5.5*3600; got != want {
		t.Errorf("a counter within an hour: %v, want %v", got, want)
	}
	// A gap stays a gap, although the hour around it was measured.
	kept := m.ticks["sched.load"]
	m.ticks["sched.load"] = append(slices.Clone(kept[:40*3600]), kept[41*3600+1800:]...)
	for _, minutes := range []measure.Span{40*60 + 10, 40*60 + 30, 41*60 + 20} {
		at := midnight.Add(minutes * measure.Minute)
		body := data(t, a, "query", "query", `avg_over_time(culprit_sched_load[5m])`, "time", seconds(at))
		if r := rows(t, body); len(r) > 0 {
			t.Errorf("%v minutes, in a gap: %v", minutes, r)
		}
	}
	m.ticks["sched.load"] = kept
	// A recording that began within the queried time has no coarser cells at its start.
	if m.minute, m.fine = 0, 0; true {
		got := numbers(t, data(t, a, "query", "query", `count_over_time(culprit_sched_load[1h])`, "time", seconds(midnight.Add(30*measure.Minute))))[0]
		if got != 1800 {
			t.Errorf("%v samples in the first half hour, want 1800", got)
		}
	}
}

// TestPushdown checks which matchers become predicates of the query, and that results don't change.
func TestPushdown(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Level, measure.Count, false, "some.thing by a,b")
	all := map[string]float64{}
	for i, k := range []string{"x|1", "x|2", "y|1", "|1", "x.|", "\xff|3", `\xff|4`, `xx|"`} {
		all[k] = float64(i)
	}
	m.put("some.thing", noon, all)
	a := m.api(noon)
	for _, c := range []struct {
		selector string
		where    string
		values   string // of the rows, by number
	}{
		{`{a="x"}`, `some.thing by a,b where a = "x"`, "[0 1]"},
		{`{a!="x"}`, `some.thing by a,b where a != "x"`, "[2 3 4 5 6 7]"},
		{`{a=""}`, `some.thing by a,b where a = ""`, "[3]"},
		{`{a=~"x|y"}`, `some.thing by a,b where a in ("x", "y")`, "[0 1 2]"},
		{`{a!~"x|y",b="1"}`, `some.thing by a,b where a != "x" and a != "y" and b = 1`, "[3]"},
		{`{a=~"x.*"}`, `some.thing by a,b`, "[0 1 4 7]"},
		{`{a=~"x\\."}`, `some.thing by a,b where a in ("x.")`, "[4]"},
		{`{a=~"(?i)X"}`, `some.thing by a,b`, "[0 1]"},
		{`{a=~"|y"}`, `some.thing by a,b`, "[2 3]"},
		{`{a=~".+"}`, `some.thing by a,b`, "[0 1 2 4 5 6 7]"},
		{`{c=""}`, `some.thing by a,b`, "[0 1 2 3 4 5 6 7]"},
		{`{c!="1"}`, `some.thing by a,b`, "[0 1 2 3 4 5 6 7]"},
		{`{c="1"}`, ``, "[]"},
		{`{b="\""}`, `some.thing by a,b where b = "\""`, "[7]"},
		{`{a="\\xff"}`, `some.thing by a,b`, "[5 6]"},
		{`{a="x' or 1"}`, `some.thing by a,b where a = "x' or 1"`, "[]"},
	} {
		m.asked = nil
		got := []float64{}
		body := data(t, a, "query", "query", "culprit_some_thing"+c.selector, "time", seconds(noon))
		for _, points := range rows(t, body) {
			for _, v := range points {
				f, _ := strconv.ParseFloat(v, 64)
				got = append(got, f)
			}
		}
		slices.Sort(got)
		if fmt.Sprint(got) != c.values {
			t.Errorf("%s: %v, want %v", c.selector, got, c.values)
		}
		switch {
		case c.where == "" && len(m.asked) > 0:
			t.Errorf("%s: asked %s, though nothing can match", c.selector, m.asked[0])
		case c.where != "" && m.asked[0].String() != c.where && c.selector != `{a=~"|y"}` && c.selector != `{a=~".+"}` && c.selector != `{a=~"(?i)X"}`:
			t.Errorf("%s: asked %s, want %s", c.selector, m.asked[0], c.where)
		}
	}
}

// TestSparse checks that an absent row of a sparse statistic is 0 where it moved elsewhere in the
// queried time. So means are right, and sums of rates stay the same.
func TestSparse(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Nanoseconds, true, "process.cpu by pid")
	for s := measure.Time(1); s <= 1200; s++ {
		now := map[string]float64{"1": 1e6}
		if s > 300 && s <= 310 {
			now["2"] = 1e9
		}
		m.put("process.cpu", noon+s*1e9, now)
	}
	a := m.api(noon + 1200e9)
	for _, c := range []struct {
		query string
		at    measure.Time
		want  float64
	}{
		{`sum(increase(culprit_process_cpu_seconds_by_pid_total{pid="2"}[10m]))`, 600, 10},
		{`sum(avg_over_time(culprit_process_cpu_seconds_by_pid_per_second{pid="2"}[10m]))`, 600, 10.0 / 600},
		{`sum(culprit_process_cpu_seconds_by_pid_per_second)`, 305, 1.001},
		{`sum(culprit_process_cpu_seconds_by_pid_per_second)`, 1200, 0.001},
		{`culprit_process_cpu_seconds_by_pid_per_second{pid="2"}`, 400, 0},
		{`count(culprit_process_cpu_seconds_by_pid_total)`, 1200, 1},
	} {
		got := numbers(t, data(t, a, "query", "query", c.query, "time", seconds(noon+c.at*1e9)))
		if len(got) != 1 || !near(got[0], c.want) {
			t.Errorf("%s at %d: %v, want %v", c.query, c.at, got, c.want)
		}
	}
}
