package demand

import (
	"math"
	"testing"
)

func TestOfThread(t *testing.T) {
	for _, tt := range []struct {
		name         string
		used, waited float64
		want         Range
	}{
		{"never waits", 0.3, 0, Range{0.3, 0.3, 0.3}},
		{"waits hardly", 0.3, 0.004, Range{0.3, 0.3, 0.3}},
		{"sleeps half of the time", 0.25, 0.25, Range{0.25, 1.0 / 3, 0.5}},
		{"waits most of the time", 0.1, 0.8, Range{0.1, 0.5, 0.9}},
		{"sleeps a little", 0.2, 0.74, Range{0.2, 0.2 / 0.26, 0.94}},
		{"never sleeps", 0.2, 0.76, Range{0.96, 0.96, 0.96}},
		{"counted twice", 0.4, 0.9, Range{1, 1, 1}},
		{"unknown", math.NaN(), math.NaN(), Range{}},
		{"impossible", -1, 7, Range{1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) { same(t, OfThread(tt.used, tt.waited), tt.want) })
	}
}

func TestOfProcess(t *testing.T) {
	for _, tt := range []struct {
		name         string
		used, waited float64
		sleepless    bool
		want         Range
	}{
		{"never waits", 3, 0, true, Range{3, 3, 3}},
		{"one thread that sleeps", 0.25, 0.25, false, Range{0.25, 1.0 / 3, 0.5}},
		{"two busy threads, a third at times", 1, 1.5, true, Range{2, 2, 2.5}},
		{"the same that sleep", 1, 1.5, false, Range{1, 2, 2.5}},
		{"four busy threads", 1.5, 2.5, true, Range{4, 4, 4}},
		{"unknown", math.NaN(), 1, true, Range{}},
		{"endless", math.Inf(1), 1, true, Range{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			same(t, OfProcess(tt.used, tt.waited, tt.sleepless), tt.want)
		})
	}
}

func same(t *testing.T, got, want Range) {
	t.Helper()
	if math.Abs(got.Least-want.Least)+math.Abs(got.Likely-want.Likely)+
		math.Abs(got.Most-want.Most) > 1e-9 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestExpected(t *testing.T) {
	for _, tt := range []struct {
		name           string
		cpus, constant float64
		tasks          []float64
		want           float64
	}{
		{"nobody", 2, 0.5, nil, 0.5},
		{"fewer than CPUs", 4, 1, []float64{0.5, 0.25}, 1.75},
		{"two halves on one CPU", 1, 0, []float64{0.5, 0.5}, 0.75},
		{"three halves on two CPUs", 2, 0, []float64{0.5, 0.5, 0.5}, 1.375},
		{"beside a busy one", 1, 1, []float64{0.5}, 1},
		{"with a part of a CPU left", 1, 0.4, []float64{0.5, 0.5}, 0.4 + 0.75*0.6},
		{"always awake", 2, 0, []float64{1, 1, 1}, 2},
		{"more than there is", 2, 3, []float64{0.1}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Expected(tt.cpus, tt.constant, tt.tasks); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestMeasured compares estimates with what TestLive measured on a quiet CPU of a machine with
// kernel 6.18: the shares that threads ran and waited beside others, and what they used together
// when the others had ended.
func TestMeasured(t *testing.T) {
	const half = "sleeps half of the time"
	for _, tt := range []struct {
		name     string
		threads  [][2]float64
		measured float64
		likely   float64 // tolerance of the likely value; 1: only the range holds
	}{
		{"busy one beside one that " + half, [][2]float64{{0.326, 0.334}}, 0.492, 0.02},
		{"two beside one that " + half, [][2]float64{{0.249, 0.495}}, 0.495, 0.02},
		{"four beside one that " + half, [][2]float64{{0.169, 0.663}}, 0.492, 0.02},
		{"one beside two", [][2]float64{{0.259, 0.476}, {0.260, 0.474}}, 0.702, 0.06},
		{"four beside two", [][2]float64{{0.147, 0.700}, {0.148, 0.694}}, 0.723, 0.06},
		{"two that sleep beside two", [][2]float64{{0.248, 0.494}, {0.248, 0.501}}, 0.653, 0.1},
		{"three beside a busy one", [][2]float64{{0.245, 0.753}}, 0.966, 0.05},
		{"sleeps 80 %", [][2]float64{{0.141, 0.309}}, 0.192, 0.02},
		{"sleeps 20 %", [][2]float64{{0.238, 0.694}}, 0.731, 0.06},
		{"work at fixed times", [][2]float64{{0.301, 0.590}}, 0.302, 1},
		{"two that wait for each other", [][2]float64{{0.316, 0.595}, {0.317, 0.597}}, 0.940, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all Range
			var tasks []float64
			for _, v := range tt.threads {
				r := OfThread(v[0], v[1])
				all.Least, all.Most = all.Least+r.Least, all.Most+r.Most
				tasks = append(tasks, r.Likely)
			}
			all.Likely, all.Most = Expected(1, 0, tasks), math.Min(1, all.Most)
			if tt.measured < all.Least-0.05 || tt.measured > all.Most+0.05 ||
				math.Abs(tt.measured-all.Likely) > tt.likely {
				t.Errorf("measured %v, estimated %+v", tt.measured, all)
			}
		})
	}
}
