package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// secret are the fields that no exported metric may have: they have a value for each process,
// thread, connection, stack or command line.
//
// table: names of fields
var secret = []string{
	"pid", "tid", "localport", "peerport", "local", "peer", "kernel", "user", "command", "path",
	"thread", "client", "parent",
}

// TestTable checks each line of the table: it parses, comes once, has a reason or is exported, and
// its labels identify no process, connection or user.
func TestTable(t *testing.T) {
	stats, names := map[measure.StatID]bool{}, map[string]bool{}
	for _, e := range Table() {
		t.Run(string(e.Stat), func(t *testing.T) {
			if stats[e.Stat] {
				t.Error("it is in the table twice")
			}
			stats[e.Stat] = true
			for _, s := range Shapes(e.Kind, e.Signed) {
				if names[e.NameOf(s)] {
					t.Errorf("another statistic has the name %s", e.NameOf(s))
				}
				names[e.NameOf(s)] = true
			}
			if e.Kind == 0 || e.Unit == "" || e.Bound < 100 {
				t.Errorf("kind %v, unit %q, bound %d", e.Kind, e.Unit, e.Bound)
			}
			for _, f := range e.Labels {
				// system.info has the release of the kernel in the field kernel.
				if e.Local == "" && slices.Contains(secret, f) && e.Stat != "system.info" {
					t.Errorf("the label %s leaves the machine", f)
				}
			}
		})
	}
	if len(stats) < 150 {
		t.Errorf("%d statistics", len(stats))
	}
}

// TestOfName checks that the name of each metric leads back to its statistic and shape.
func TestOfName(t *testing.T) {
	for _, e := range Table() {
		for _, shape := range Shapes(e.Kind, e.Signed) {
			got, s, ok := OfName(e.NameOf(shape))
			if !ok || got.Stat != e.Stat || s != shape {
				t.Errorf("%s is %s, %v, %v", e.NameOf(shape), got.Stat, s, ok)
			}
		}
		if same, ok := OfID(e.Stat); !ok || same.Name() != e.Name() {
			t.Errorf("%s: %v, %v", e.Stat, same, ok)
		}
	}
	if e, _, ok := OfName("culprit_cpu_time_seconds"); ok {
		t.Errorf("a name without its suffix is %s", e.Stat)
	}
	if e, ok := OfID("cpu.tim"); ok {
		t.Errorf("an unknown statistic is %s", e.Stat)
	}
}

// TestNames checks names and base units for each kind and unit.
func TestNames(t *testing.T) {
	tests := []struct {
		name string
		stat measure.Stat
		want string
		per  float64
	}{
		{"bytes", measure.Stat{ID: "memory.free", Kind: level, Unit: size},
			"culprit_memory_free_bytes", 1},
		{"a name that ends in its unit", measure.Stat{ID: "my.bytes", Kind: delta, Unit: size},
			"culprit_my_bytes_total", 1},
		{"time", measure.Stat{ID: "my.time", Kind: delta, Unit: nanos},
			"culprit_my_time_seconds_total", 1e9},
		{"bits", measure.Stat{ID: "my.speed", Kind: level, Unit: bits},
			"culprit_my_speed_bytes_per_second", 8},
		{"hertz", measure.Stat{ID: "my.clock", Kind: level, Unit: hertz}, "culprit_my_clock_hertz", 1},
		{"samples", measure.Stat{ID: "my.stacks", Kind: delta, Unit: samples},
			"culprit_my_stacks_total", 1},
		{"unknown unit", measure.Stat{ID: "fan.speed", Kind: level, Unit: "turn/s"},
			"culprit_fan_speed_turn_per_s", 1},
		{"a distribution", measure.Stat{ID: "my.latency", Kind: dist, Unit: nanos},
			"culprit_my_latency_seconds", 1e9},
		{"a signed delta", measure.Stat{ID: "my.growth", Kind: delta, Unit: count, Signed: true},
			"culprit_my_growth_per_second", 1},
		{"other letters", measure.Stat{ID: "trace.a_b.c-d", Kind: level, Unit: count},
			"culprit_trace_a__b_c___2dd", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := OfStat(&tt.stat)
			if e.Name() != tt.want || UnitOf(tt.stat.Unit).Per != tt.per {
				t.Errorf("%s, %g in one unit; want %s, %g", e.Name(), UnitOf(tt.stat.Unit).Per,
					tt.want, tt.per)
			}
			if e.Local == "" {
				t.Error("a statistic that is not in the table is exported")
			}
		})
	}
}

// TestOfStat checks that a statistic that has a built-in one's name and another kind is not
// exported as the built-in one.
func TestOfStat(t *testing.T) {
	st := measure.Stat{ID: "memory.oom", Kind: delta, Unit: events}
	if e := OfStat(&st); e.Local != "" {
		t.Errorf("memory.oom is not exported: %s", e.Local)
	}
	st.Kind = level
	if e := OfStat(&st); e.Local == "" {
		t.Error("a level memory.oom is exported")
	}
	mine := measure.Stat{ID: "mine.count", Kind: delta, Unit: count, Fields: []measure.Field{
		{Name: "process", Type: measure.Word}, {Name: "stack", Type: measure.Stack},
	}}
	if e := OfStat(&mine); !slices.Equal(e.Labels, []string{"process"}) {
		t.Errorf("labels %v: stacks are folded", e.Labels)
	}
}

// TestLabels checks the words of modes both ways, and bytes that are not UTF-8.
func TestLabels(t *testing.T) {
	for _, tt := range []struct{ field, value, label string }{
		{"mode", "usr", "user"}, {"mode", "sys", "system"}, {"mode", "soft", "softirq"},
		{"mode", "iowait", "iowait"}, {"kind", "usr", "usr"}, {"device", "eth\xff0", `eth\xff0`},
	} {
		if got := Label(tt.field, tt.value); got != tt.label {
			t.Errorf("%s %q has the label %q, want %q", tt.field, tt.value, got, tt.label)
		}
		value, ok := Value(tt.field, tt.label)
		if want := tt.field != "device"; ok != want || ok && value != tt.value {
			t.Errorf("the label %q of %s is %q, %v", tt.label, tt.field, value, ok)
		}
	}
	if v, ok := Value("mode", "usr"); ok {
		t.Errorf("no row has the label usr, but %q", v)
	}
}

// TestBudget checks which metrics are omitted, step by step: the budget remembers.
func TestBudget(t *testing.T) {
	var b Budget
	steps := []struct {
		name       string
		wide, kept int
		bounded    int
		want       []string
	}{
		{"all fit", 3000, 900, 100, nil},
		{"one too many", 3001, 900, 100, []string{"wide"}},
		{"a tenth is not free yet", 2601, 900, 100, []string{"wide"}},
		{"a tenth is free", 2600, 900, 100, nil},
		{"wider ones are kept", 100, 3901, 50, []string{"wide"}},
		{"above its own bound", 100, 200, 101, []string{"bounded"}},
		{"just at its bound again", 100, 200, 91, []string{"bounded"}},
		{"a tenth below its bound", 100, 200, 90, nil},
		{"all that can go", 100, 4001, 50, []string{"bounded", "kept", "wide"}},
	}
	for _, tt := range steps {
		omitted := b.Choose([]Width{
			{"wide", tt.wide, 5000, false}, {"kept", tt.kept, 5000, true},
			{"bounded", tt.bounded, 100, false},
		})
		if got := slices.Sorted(maps.Keys(omitted)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v are omitted, want %v", tt.name, got, tt.want)
		}
	}
}

// TestQueries checks that each default query has the labels and the fields of the predicate.
func TestQueries(t *testing.T) {
	all := Queries()
	for _, want := range []string{
		"cpu.time by cpu,mode", "limit.used by resource,owner",
		"net.qdisc.drops by netns,device,kind,parent", "system.info by kernel,arch,machine",
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is missing in %s", want, strings.Join(all, "\n"))
		}
	}
	if s := fmt.Sprint(all); strings.Contains(s, "where") || strings.Contains(s, "tcp.connections") {
		t.Errorf("predicates, or what is recorded on request: %s", s)
	}
}
