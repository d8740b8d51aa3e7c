package prom

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// midnight is in the middle of the world's forty minutes.
const midnight = measure.Time(1772409600e9) // 2026-03-02T00:00:00Z

// world is forty minutes around midnight with rows that appear and disappear, missing ticks and a
// gap.
func world(t testing.TB) *memory {
	m := &memory{}
	m.record(t, measure.Delta, measure.Bytes, false, "net.device.bytes by netns,device,direction")
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cpu.time by cpu,mode")
	m.record(t, measure.Delta, measure.Nanoseconds, true, "process.cpu by pid,process")
	m.record(t, measure.Level, measure.Bytes, false, "memory.size by kind")
	m.record(t, measure.Level, measure.Count, false, "sched.load by window")
	m.record(t, measure.Level, measure.Nanoseconds, false, "tcp.flow.rtt by peer")
	m.record(t, measure.Delta, measure.Events, false, "request.latency by le")
	r := rand.New(rand.NewPCG(1, 2))
	whole := func(below int) float64 { return float64(r.IntN(below)) }
	load := 1.0
	for s := -1200; s < 1200; s++ {
		at := midnight.Add(measure.Span(s+1) * measure.Second)
		if s == -870 || s >= -600 && s < -470 { // a missed tick, and two minutes without the server
			continue
		}
		bytes := map[string]float64{"|eth0|rx": whole(1e8), "|eth0|tx": whole(1e6), "|lo|rx": 0}
		if s > -900 && s < -700 || s > -695 && s < 300 {
			bytes["blue|veth1|rx"] = whole(500)
			bytes["blue|veth1|tx"] = whole(50)
		}
		if s%400 > 200 { // appears and disappears
			bytes["blue|tun0|rx"] = whole(5)
		}
		switch { // the first second of the day hides the reset of the counter
		case s == 0:
			bytes["|eth2|rx"] = 1e9
		default:
			bytes["|eth2|rx"] = whole(2)
		}
		m.put("net.device.bytes", at, bytes)
		cpu := map[string]float64{}
		for c := range 2 {
			usr := whole(5e8)
			cpu[fmt.Sprintf("%d|usr", c)], cpu[fmt.Sprintf("%d|sys", c)] = usr, whole(1e8)
			cpu[fmt.Sprintf("%d|idle", c)] = 1e9 - usr
		}
		m.put("cpu.time", at, cpu)
		busy := map[string]float64{"1|init": 1 + whole(1e6)}
		if s%2 == 0 {
			busy["77|postgres"] = whole(1e9)
		}
		m.put("process.cpu", at, busy)
		m.put(
			"memory.size",
			at,
			map[string]float64{"free": 1e9 + whole(1e9), "used": 3e9 - whole(1e9),
				"dirty": whole(1e5) * 4096},
		)
		load += (r.Float64() - 0.5) / 10
		m.put("sched.load", at, map[string]float64{"1m": load, "5m": load / 3, "15m": -load})
		rtt := map[string]float64{"192.0.2.1": whole(1e8)}
		if r.IntN(3) > 0 {
			rtt["192.0.2.2"] = whole(1e6)
		}
		if s%300 < 100 {
			rtt["2001:db8::1"] = 1e6 + whole(1e3)
		}
		m.put("tcp.flow.rtt", at, rtt)
		fast, slow := whole(100), whole(20)
		m.put(
			"request.latency",
			at,
			map[string]float64{"0.1": fast, "0.5": fast + slow, "1": fast + slow + 1,
				"+Inf": fast + slow + 1 + whole(2)},
		)
	}
	return m
}

// written is a series as a Prometheus server stores it.
type written struct {
	labels labels.Labels
	points floats
}

// samplesOf computes the samples of a dataset from its ticks. It follows docs/PROMETHEUS.md and
// shares no code with this package.
func samplesOf(m *memory, d measure.Dataset) []written {
	ticks := map[measure.Time]tick{}
	all := map[string]bool{}
	first, last := measure.Time(math.MaxInt64), measure.Time(0)
	for _, t := range m.ticks[d.Query.Stat] {
		ticks[t.at] = t
		first, last = min(first, t.at), max(last, t.at)
		for k := range t.rows {
			all[k] = true
		}
	}
	stale := math.Float64frombits(0x7ff0000000000002)
	per := 1.0
	if d.Stat.Unit == measure.Nanoseconds {
		per = 1e9
	}
	name := map[measure.StatID]string{
		"net.device.bytes": "culprit_net_device_bytes", "cpu.time": "culprit_cpu_time_seconds", "process.cpu": "culprit_process_cpu_seconds_by_pid_process", "memory.size": "culprit_memory_size_bytes",
		"sched.load": "culprit_sched_load", "tcp.flow.rtt": "culprit_tcp_flow_rtt_seconds_by_peer", "request.latency": "culprit_request_latency",
	}[d.Query.Stat]
	var out []written
	for key := range all {
		set := map[string]string{}
		for i, text := range strings.Split(key, "|") {
			if text != "" {
				if word := map[string]string{"usr": "user", "sys": "system"}[text]; word != "" {
					text = word
				}
				set[d.Query.By[i]] = text
			}
		}
		var total, level floats
		sum, here := 0.0, false
		for at := first; at <= last; at += 1e9 {
			before := sum
			if (at-1e9)%(24*3600e9) == 0 { // the first tick of a day
				sum = 0
			} else {
				before = 0
			}
			v, ok := ticks[at].rows[key]
			if _, measured := ticks[at]; measured && d.Stat.Sparse {
				ok = true
			}
			t := int64(at) / 1e6
			switch {
			case !ok && here:
				total, level = append(total, float{t, stale}), append(level, float{t, stale})
			case ok:
				switch {
				case !here && len(total) > 0 && total[len(total)-1].time == t-1000:
					total[len(total)-1].value = sum / per
				case !here:
					total = append(total, float{t - 1000, sum / per})
				case before > 0 && v >= before:
					total = append(total, float{t - 999, 0})
				}
				sum += v
				total, level = append(total, float{t, sum / per}), append(level, float{t, v / per})
			}
			here = ok
		}
		if here {
			t := int64(last)/1e6 + 1000
			total, level = append(total, float{t, stale}), append(level, float{t, stale})
		}
		if d.Stat.Kind == measure.Delta {
			set["__name__"] = name + "_total"
			out = append(out, written{labels.FromMap(set), total})
			set["__name__"] = name + "_per_second"
		} else {
			set["__name__"] = name
		}
		out = append(out, written{labels.FromMap(set), level})
	}
	return out
}

// sampleStore is a storage that holds all samples and ignores hints.
type sampleStore []written

func (s sampleStore) Querier(int64, int64) (storage.Querier, error) { return s, nil }
func (s sampleStore) Close() error                                  { return nil }

func (s sampleStore) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s sampleStore) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

type storedSeries struct{ written }

func (o storedSeries) Labels() labels.Labels { return o.labels }
func (o storedSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(o.points)
}

type found struct {
	all []written
	at  int
}

func (f *found) Next() bool                        { f.at++; return f.at <= len(f.all) }
func (f *found) At() storage.Series                { return storedSeries{f.all[f.at-1]} }
func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }

func (s sampleStore) Select(_ context.Context, _ bool, _ *storage.SelectHints,
	matchers ...*labels.Matcher,
) storage.SeriesSet {
	f := &found{}
	for _, w := range s {
		ok := true
		for _, m := range matchers {
			ok = ok && m.Matches(w.labels.Get(m.Name))
		}
		if ok {
			f.all = append(f.all, w)
		}
	}
	return f
}
