package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"testing"
	"time"

	"culprit/fleet"
	"culprit/measure"
)

// asked is the reply of /api/questions.
type asked struct {
	Questions []struct {
		Text, Query      string
		Wider            []string
		Recorded, Traced bool
		CPU              *float64
	}
}

// addLinks adds a statistic of devices that is not recorded. Its device eth1 is slow.
func addLinks(m *memory) {
	word := func(names ...string) (f []measure.Field) {
		for _, n := range names {
			f = append(f, measure.Field{Name: n, Type: measure.Word, Help: n})
		}
		return f
	}
	m.stats = append(m.stats, measure.Stat{
		ID: "net.device.speed", Kind: measure.Level, Unit: measure.BitsPerSec, Fold: measure.Max,
		Traced: true, Help: "speed", Fields: word("device"),
	})
}

func TestQuestionsOfARow(t *testing.T) {
	m := newMemory(t).filled(3)
	addLinks(m)
	s := serve(t, m).until(start + 3*second)
	v := url.Values{
		"q": {"net.device.bytes by device"}, "value": {"eth0"}, "wider": {`tcp.rtt where peer = "a"`},
	}
	var r asked
	s.decodeReply(s.get("/api/questions?"+v.Encode()), &r)
	if len(r.Questions) != 1 {
		t.Fatalf("%+v", r)
	}
	q := r.Questions[0]
	if q.Text != "Is the link slow?" || q.Query != `net.device.speed where device = "eth0"` ||
		len(q.Wider) != 1 || q.Wider[0] != `tcp.rtt where peer = "a"` || q.Recorded || !q.Traced ||
		q.CPU != nil {
		t.Errorf("%+v", q)
	}
	m.sets = append(m.sets, measure.Dataset{
		ID: 9, Query: measure.Query{Stat: "net.device.speed", By: []string{"device"}},
		State: measure.Recording,
	})
	s.decodeReply(s.get("/api/questions?"+v.Encode()), &r)
	if !r.Questions[0].Recorded {
		t.Error("a dataset covers it")
	}
}

func TestPrices(t *testing.T) {
	m := newMemory(t).filled(3)
	addLinks(m)
	s := serve(t, m).until(start + 3*second)
	var r struct {
		Prices []struct {
			Stat, Query string
			Recorded    bool
		}
	}
	s.decodeReply(s.get("/api/prices"), &r)
	if len(r.Prices) != len(m.stats) {
		t.Fatalf("%d prices", len(r.Prices))
	}
	for _, p := range r.Prices {
		if p.Recorded != (p.Stat != "net.device.speed") {
			t.Errorf("%+v", p)
		}
	}
	if p := r.Prices[2]; p.Query != "net.device.bytes by device,direction" {
		t.Errorf("%+v", p)
	}
}

// costly is a machine whose datasets cost as many thousandths of a CPU as their number.
type costly struct{ *memory }

func (c costly) Usage(id uint32) measure.Usage { return measure.Usage{CPU: float64(id) / 1000} }

func TestPriceOfRelatedStatistics(t *testing.T) {
	c := core{Config: &Config{Machine: costly{newMemory(t)}}}
	for id, want := range map[measure.StatID]float64{
		"net.device.bytes": 0.003, "net.device.speed": 0.003, "net.rings": 0.004, "disk.queue": -1,
	} {
		got := c.price(id)
		if got != got {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestQuestionsRefuse(t *testing.T) {
	s := serve(t, newMemory(t).filled(3)).until(start + 3*second)
	for query, want := range map[string]string{
		"":                                  "400 bad-request",
		"q=cpu.time+by+cpu,mode&value=0":    "400 bad-request",
		"q=net.device.bytes&value=eth0":     "400 bad-request",
		"q=nothing":                         "400 unknown-statistic",
		"q=cpu.time&wider=nothing":          "400 unknown-statistic",
		"q=cpu.time&value=&value=":          "400 bad-request",
		"q=cpu.time" + repeated("wider", 9): "400 bad-request",
	} {
		if got := s.code(s.get("/api/questions?" + query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func repeated(name string, n int) (text string) {
	for range n {
		text += "&" + name + "=cpu.time"
	}
	return text
}

// peers returns an answer with ten peers in two directions: peer 3 receives a tenth, peer 4 sends
// ten times as much.
func peers() (*measure.Answer, *measure.Stat) {
	st := &measure.Stat{ID: "tcp.flow.bytes", Kind: measure.Delta, Unit: measure.Bytes, Fields: []measure.Field{
		{Name: "peer", Type: measure.Word}, {Name: "direction", Type: measure.Word},
	}}
	a := &measure.Answer{
		Query: measure.Query{Stat: st.ID, By: []string{"peer", "direction"}},
		Kind:  st.Kind, Unit: st.AnswerUnit(), Labels: []string{"rx", "tx"},
		Elapsed: []measure.Span{measure.Second, measure.Second},
	}
	for peer := range 10 {
		a.Labels = append(a.Labels, string(rune('0'+peer)))
		for d := range 2 {
			v := []float64{5e7, 1e6}[d] + float64(peer)*1e4
			switch [2]int{peer, d} {
			case [2]int{3, 0}:
				v /= 10
			case [2]int{4, 1}:
				v *= 10
			}
			key := []measure.Label{measure.Label(peer + 2), measure.Label(d)}
			a.Series = append(a.Series, measure.Series{Key: key, Values: []float64{v, v}})
		}
	}
	return a, st
}

// TestUnlike checks that rows are compared within their direction: all that is received is fifty
// times what is sent.
func TestUnlike(t *testing.T) {
	a, st := peers()
	got := unlike(a, st)
	if len(got) != 2 || !(got[6].Score < -6) || !(got[9].Score > 6) || got[6].Others != 9 {
		t.Errorf("%+v", got)
	}
	if m := got[6].Median; math.Abs(m-5.005e7) > 1e4 {
		t.Errorf("median %v", m)
	}
	a.Query.By = []string{"mode", "kind"}
	st.Fields[0].Name, st.Fields[1].Name = "mode", "kind"
	if got := unlike(a, st); len(got) != 0 {
		t.Errorf("modes are no peers: %+v", got)
	}
}

// TestUnlikeRowsAreSent checks that the smallest of the received rows is among the largest three.
func TestUnlikeRowsAreSent(t *testing.T) {
	a, st := peers()
	s, err := shape(a, st, 3, unlike(a, st))
	if err != nil || len(s.order) != 3 || s.left != 17 {
		t.Fatalf("%v, %d left, %v", s.order, s.left, err)
	}
	if s.order[0] != 18 || s.order[1] != 9 || s.order[2] != 6 {
		t.Errorf("rows %v", s.order)
	}
	left := 0.0
	for i := range a.Series {
		if i != 18 && i != 9 && i != 6 {
			left += a.Series[i].Values[0]
		}
	}
	if math.Abs(s.rest[0]-left) > 1 {
		t.Errorf("rest %v, want %v", s.rest[0], left)
	}
}

// manyDevices returns the rows of a second in which 300 devices send the more the larger their
// number, but dev0 sends a hundredth of the least of them.
func manyDevices() map[measure.StatID][]line {
	var rows []line
	for i := range 300 {
		v := 1e6 + float64(i)*100
		if i == 0 {
			v = 1e4
		}
		rows = append(rows, line{[]string{fmt.Sprint("dev", i), "tx"}, v})
	}
	return map[measure.StatID][]line{"net.device.bytes": rows}
}

// TestLiveSendsRowsUnlikeTheOthers checks that a live view with a window has the row that differs,
// though it is the smallest of 300, and that its score is sent only while it is new.
func TestLiveSendsRowsUnlikeTheOthers(t *testing.T) {
	m := newMemory(t)
	at := start
	tick := func() {
		at += second
		m.add(at, manyDevices())
	}
	tick()
	s := serve(t, m).until(at)
	v := url.Values{
		"q": {"net.device.bytes by device"}, "top": {"3"}, "window": {"1m"},
	}
	r := bufio.NewReaderSize(s.get("/api/live?"+v.Encode()).Body, 1<<20)
	const quiet, scored, later = 0, 1, 2
	phase := quiet
	for deadline := time.Now().Add(time.Minute); phase != later; tick() {
		if time.Now().After(deadline) {
			t.Fatalf("after %d ticks still in phase %d", at.Sub(start)/measure.Second, phase)
		}
		var got struct {
			Answers []struct {
				ComparedMS float64 `json:"compared_ms"`
				Series     []struct{ Key []string }
				Unlike     []struct {
					Key    []string
					Score  float64
					Median float64
					Others int
				}
			}
		}
		if _, data := sse(t, r); json.Unmarshal([]byte(data), &got) != nil {
			t.Fatal(data)
		}
		a := got.Answers[0]
		sent := a.Series[len(a.Series)-1].Key[0] == "dev0"
		switch {
		case len(a.Series) != 3 || len(a.Unlike) > 0 && !sent || (a.ComparedMS > 0) != sent:
			t.Fatalf("%+v", a)
		case len(a.Unlike) == 1:
			u := a.Unlike[0]
			if u.Key[0] != "dev0" || !(u.Score < -6) || u.Others != 299 ||
				math.Abs(u.Median-1.015e6) > 1e3 {
				t.Fatalf("%+v", u)
			}
			phase = scored
		case phase == scored && sent:
			phase = later
		case phase == quiet:
			time.Sleep(time.Millisecond) // the rows are compared meanwhile
		}
	}
}

// TestLiveWithoutWindow checks that rows of a live view are compared only if it has a window.
func TestLiveWithoutWindow(t *testing.T) {
	m := newMemory(t)
	m.add(start+second, manyDevices())
	s := serve(t, m).until(start + second)
	sse(t, bufio.NewReader(s.get("/api/live?q=net.device.bytes+by+device&top=3").Body))
	s.live.scores.Lock()
	defer s.live.scores.Unlock()
	if len(s.live.scores.all) != 0 {
		t.Errorf("%d queries were compared", len(s.live.scores.all))
	}
	if got := s.code(s.get("/api/live?q=net.device.bytes+by+device&window=0")); got != "400 bad-request" {
		t.Errorf("a window of 0: %s", got)
	}
}

// TestScoresAreBounded checks that rows of further queries are not compared beyond the limit, and
// that queries which no view uses are dropped.
func TestScoresAreBounded(t *testing.T) {
	m := newMemory(t)
	m.add(start+second, manyDevices())
	s := serve(t, m).until(start + second)
	q := measure.Query{Stat: "net.device.bytes", By: []string{"device"}}
	all := &s.live.scores.all
	*all = map[string]*scored{}
	for i := range mostScored {
		(*all)[strconv.Itoa(i)] = &scored{used: start}
	}
	s.live.deviants(q, "q", measure.Second, start+second)
	if len(*all) != mostScored {
		t.Errorf("%d queries, want %d", len(*all), mostScored)
	}
	s.live.deviants(q, "q", measure.Second, start+2*measure.Time(unusedScore))
	s.live.scores.Lock()
	defer s.live.scores.Unlock()
	if len(*all) != 1 {
		t.Errorf("%d queries after the others are unused, want 1", len(*all))
	}
}

// TestDeviantsAreBounded checks that the rows that differ the most are sent, the furthest first
// whichever way.
func TestDeviantsAreBounded(t *testing.T) {
	a := &measure.Answer{Query: measure.Query{By: []string{"peer"}}}
	all := map[int]fleet.Outlier{}
	for i := range liveTop + 50 {
		a.Labels = append(a.Labels, fmt.Sprint(i))
		a.Series = append(a.Series, measure.Series{Key: []measure.Label{measure.Label(i)}})
		score := float64(10 + i)
		if i%2 == 0 {
			score = -score
		}
		all[i] = fleet.Outlier{Host: i, Score: score}
	}
	d := newDeviants(a, all)
	if len(d.keys) != liveTop || len(d.byKey) != liveTop {
		t.Fatalf("%d rows, %d keys", len(d.keys), len(d.byKey))
	}
	if d.keys[0][0] != "249" || d.keys[1][0] != "248" || d.keys[liveTop-1][0] != "50" {
		t.Errorf("%v, %v ... %v", d.keys[0], d.keys[1], d.keys[liveTop-1])
	}
	if found := d.find(a); len(found) != liveTop || found[248].Score != -258 {
		t.Errorf("%d found, %+v", len(found), found[248])
	}
}

// sends returns peers' answer with one direction, in which peer i sends values[i].
func sends(values ...float64) (*measure.Answer, *measure.Stat) {
	a, st := peers()
	a.Series = a.Series[:0]
	for i, v := range values {
		a.Labels = append(a.Labels, fmt.Sprint("peer", i))
		key := []measure.Label{measure.Label(len(a.Labels) - 1), 1}
		a.Series = append(a.Series, measure.Series{Key: key, Values: []float64{v, v}})
	}
	return a, st
}

// TestUnlikeAmongIdle checks that rows that work are compared with each other where most are idle,
// that an idle row differs where most work, and that many rows of different sizes are no outliers.
func TestUnlikeAmongIdle(t *testing.T) {
	idle := []float64{0, 0, 1e3, 0, 2e3, 0, 0, 3e3, 0, 0}
	for _, tt := range []struct {
		name   string
		values []float64
		want   string
	}{
		{"slow among many idle", append([]float64{1e7, 1.01e7, 2e6, 9.9e6, 1e7}, idle...), "2-"},
		{"all work alike among many idle", append([]float64{1e7, 1.01e7, 1e7, 9.9e6}, idle...), ""},
		{"one works among idle", append([]float64{1e7}, idle...), ""},
		{"one idle among those that work", []float64{1e7, 1e7, 1.02e7, 0, 1e7, 9.9e6}, "3-"},
		{"a quarter of those that work", []float64{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 9e6, 9e6}, "6+7+"},
		{"more than a quarter", []float64{1e6, 1e6, 1e6, 1e6, 1e6, 9e6, 9e6, 9e6}, ""},
		{"a slow client of ten", []float64{
			1.65e6, 1.66e6, 1.15e6, 1.65e6, 1.64e6, 1.65e6, 1.65e6, 1.66e6, 1.65e6, 1.65e6,
		}, "2-"},
		{"a slow client, their server and the machine itself", []float64{
			99.5e6, 8e3, 18e6, 18e6, 18.01e6, 18e6, 17.99e6, 9.69e6,
		}, "0+1-7-"},
		{"a fifth below equal ones", []float64{1e7, 1e7, 8.1e6, 1e7, 1e7, 1e7}, ""},
		{"a third below unequal ones", []float64{1e7, 9e6, 6.7e6, 1.1e7, 9.5e6, 1.05e7}, ""},
		{"many above, one below", []float64{1e4, 5e6, 5e6, 5e6, 5e6, 5e6, 5e6, 4e7, 4e7, 4e7, 4e7}, "0-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, st := sends(tt.values...)
			got, all := "", unlike(a, st)
			for i := range tt.values {
				if o, ok := all[i]; ok {
					got += fmt.Sprint(i) + map[bool]string{true: "+", false: "-"}[o.Score > 0]
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q: %+v", got, tt.want, all)
			}
		})
	}
}
