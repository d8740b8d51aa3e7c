package web

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"testing"

	"culprit/measure"
)

// addLatencies adds a statistic with two bands to the recording, in each second: the process quick
// makes 190 requests of 50 us, slow makes 9 of 20 ms and 1 of 50 us. In the last second there is no
// slow band. The label of the last field is the latency.
func addLatencies(m *memory) {
	m.stats = append(m.stats, measure.Stat{
		ID: "disk.latency", Kind: measure.Dists, Unit: measure.Nanoseconds, Sparse: true,
		Help: "latency",
		Fields: []measure.Field{
			{Name: "device", Type: measure.Word}, {Name: "process", Type: measure.Word},
			{Name: "unrecorded", Type: measure.Word}, {Name: "stack", Type: measure.Stack},
		},
	})
	for i := range m.ticks {
		rows := []line{
			{[]string{"sda", "quick", "", "50000"}, 190}, {[]string{"sda", "slow", "", "50000"}, 1},
		}
		if i < len(m.ticks)-1 {
			rows = append(rows, line{[]string{"sdb", "slow", "", "20000000"}, 9})
		}
		m.ticks[i].rows["disk.latency"] = rows
	}
}

// ranking is the reply of /api/rank.
type ranking struct {
	Inside, Outside uint64
	StartMS         float64 `json:"start_ms"`
	EndMS           float64 `json:"end_ms"`
	Fields          []struct {
		Field  string
		Values []struct {
			Value           string
			Inside, Outside uint64
			Score           float64
		}
	}
	Missing []struct {
		Field, Why, Record string
		CPU                *float64
	}
}

func ranked(s *site, q string, more ...string) (r ranking) {
	v := url.Values{"q": {q}, "from": {fmt.Sprint(int64(start / 1e6))}}
	for i := 0; i < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	s.decodeReply(s.get("/api/rank?"+v.Encode()), &r)
	return r
}

// TestRankNamesTheSlowProcess selects the upper band in seconds 3 and 4 of ten.
func TestRankNamesTheSlowProcess(t *testing.T) {
	m := newMemory(t).filled(10)
	addLatencies(m)
	s := serve(t, m).until(start + 10*second)
	at := func(n int) string { return fmt.Sprint(int64((start + measure.Time(n)*second) / 1e6)) }
	r := ranked(s, "disk.latency by device", "start", at(2), "end", at(4), "low", "1e7", "high", "1e8")
	if r.Inside != 18 || r.Outside != 10*191+7*9 {
		t.Fatalf("%d inside, %d outside", r.Inside, r.Outside)
	}
	if r.StartMS != float64((start+2*second)/1e6) || r.EndMS-r.StartMS != 2000 {
		t.Errorf("rectangle from %v to %v", r.StartMS, r.EndMS)
	}
	// The process has fast requests too, so the device stands out more.
	if len(r.Fields) != 2 || r.Fields[0].Field != "device" || r.Fields[1].Field != "process" {
		t.Fatalf("fields %+v", r.Fields)
	}
	for _, f := range r.Fields {
		top, want := f.Values[0], map[string]string{"process": "slow", "device": "sdb"}[f.Field]
		outside := map[string]uint64{"process": 10 + 63, "device": 63}[f.Field]
		score := 1 - float64(outside)/float64(r.Outside)
		if top.Value != want || top.Inside != 18 || top.Outside != outside ||
			math.Abs(top.Score-score) > 1e-8 {
			t.Errorf("%s: %+v, want %s with %d outside and score %v", f.Field, top, want, outside, score)
		}
	}
	if len(r.Missing) != 2 || r.Missing[0].Field != "unrecorded" ||
		r.Missing[0].Record != "disk.latency by unrecorded" || r.Missing[0].CPU != nil ||
		r.Missing[1].Field != "stack" || r.Missing[1].Record != "" {
		t.Errorf("missing %+v", r.Missing)
	}
}

// TestRankKeepsThePredicate: events that the query leaves out are neither inside nor outside, and a
// field that the query fixes is not ranked.
func TestRankKeepsThePredicate(t *testing.T) {
	m := newMemory(t).filled(10)
	addLatencies(m)
	s := serve(t, m).until(start + 10*second)
	r := ranked(s, `disk.latency where process = "slow"`, "low", "1e7")
	if r.Inside != 81 || r.Outside != 10 {
		t.Errorf("%d inside, %d outside", r.Inside, r.Outside)
	}
	for _, f := range r.Fields {
		if f.Field == "process" {
			t.Errorf("ranked %+v", f)
		}
	}
}

func TestRankOffersToRecordBesideWhatIsRecorded(t *testing.T) {
	m := newMemory(t).filled(3)
	addLatencies(m)
	m.sets = append(m.sets, measure.Dataset{
		ID: 99, Stat: *m.stat("disk.latency"), State: measure.Recording,
		Query: measure.Query{Stat: "disk.latency", By: []string{"device", "process"}},
	})
	s := serve(t, m).until(start + 3*second)
	if r := ranked(s, "disk.latency"); r.Missing[0].Record !=
		"disk.latency by device,process,unrecorded" {
		t.Errorf("missing %+v", r.Missing)
	}
}

func TestRankRefuses(t *testing.T) {
	m := newMemory(t).filled(5)
	addLatencies(m)
	s := serve(t, m).until(start + 5*second)
	for query, want := range map[string]string{
		"":                                          "400 bad-request",
		"q=no.such":                                 "400 unknown-statistic",
		"q=memory.free":                             "400 bad-request",
		"q=disk.latency&low=x":                      "400 bad-request",
		"q=disk.latency&low=-1":                     "400 bad-request",
		"q=disk.latency&low=NaN":                    "400 bad-request",
		"q=disk.latency&high=Inf":                   "400 bad-request",
		"q=disk.latency&low=5&high=5":               "400 bad-request",
		"q=disk.latency&start=-1s&end=-2s":          "400 bad-request",
		"q=disk.latency&from=-5s&end=-6s":           "400 bad-request",
		"q=disk.latency&from=now&to=-1s":            "400 bad-request",
		"q=disk.latency&limit=1":                    "400 bad-request",
		"q=disk.latency+where+device+=+%22x":        "400 syntax",
		"q=disk.latency+where+unrecorded+=+%22x%22": "200",
	} {
		res := s.get("/api/rank?" + query)
		if res.StatusCode == 200 {
			if want != "200" {
				t.Errorf("%s: 200, want %s", query, want)
			}
			continue
		}
		if got := s.code(res); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if got := s.code(s.get("/api/rank?q=disk.latency", "Authorization", "")); got != "401 unauthorized" {
		t.Errorf("without a token: %s", got)
	}
}

// coarse is a machine that keeps old data only in steps: what it answers is widened to them.
type coarse struct {
	*memory
	step  measure.Time // of all data
	early measure.Time // of the data before the first four minutes are over
}

func (c *coarse) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	step := c.step
	if q.Over.Start < start+240*second {
		step = max(step, c.early)
	}
	q.Over.Start -= (q.Over.Start - start) % step
	if over := (q.Over.End - start) % step; over != 0 {
		q.Over.End += step - over
	}
	q.Step = q.Over.Span()
	return c.memory.Ask(ctx, q)
}

// TestRankOfCoarseDataCountsNothingTwice: a rectangle within minutes is widened to them; where the
// time beside it would overlap, there is an error instead.
func TestRankOfCoarseDataCountsNothingTwice(t *testing.T) {
	for _, tt := range []struct {
		name  string
		early measure.Time
		want  string
	}{
		{"minutes everywhere", 60 * second, "200"},
		{"ten minutes before", 600 * second, "404 unclear"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(t).filled(600)
			addLatencies(m)
			s := serve(t, &coarse{m, 60 * second, tt.early}).until(start + 600*second)
			at := func(n int) string {
				return fmt.Sprint(int64((start + measure.Time(n)*second) / 1e6))
			}
			path := "/api/rank?q=disk.latency&from=" + at(0) + "&to=" + at(600) + "&start=" + at(310) +
				"&end=" + at(350) + "&low=1e7"
			res := s.get(path)
			if tt.want != "200" {
				if got := s.code(res); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				return
			}
			var r ranking
			s.decodeReply(res, &r)
			if r.Inside != 60*9 || r.Inside+r.Outside != 600*191+599*9 {
				t.Errorf("%d inside, %d in all", r.Inside, r.Inside+r.Outside)
			}
			if r.StartMS != float64((start+300*second)/1e6) || r.EndMS-r.StartMS != 60_000 {
				t.Errorf("from %v to %v", r.StartMS, r.EndMS)
			}
		})
	}
}
