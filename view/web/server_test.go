package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

const token = "0123456789abcdef0123456789abcdef"

// site is a server that listens on a loopback port.
type site struct {
	*Server
	t    testing.TB
	base string
}

func serve(t testing.TB, m Machine, change ...func(*Server)) *site {
	t.Helper()
	s := New(m, About{Version: "1.0", Host: "here", Kernel: "6.1", CPUs: 2}, token)
	for _, c := range change {
		c(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-done
	})
	return &site{s, t, "http://" + l.Addr().String()}
}

// until waits until the server has a tick of the machine at the given time or later.
func (s *site) until(at measure.Time) *site {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); measure.Time(s.clock.newest.Load()) < at; {
		if time.Now().After(deadline) {
			s.t.Fatalf("tick %v did not arrive", at)
		}
		time.Sleep(time.Millisecond)
	}
	return s
}

// request sends a request with the token. headers are pairs of name and value; an empty value
// removes the header.
func (s *site) request(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if method == "POST" {
		r.Header.Set("X-Culprit", "1")
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (s *site) get(path string, headers ...string) *http.Response {
	s.t.Helper()
	return s.request("GET", path, "", headers...)
}

// decodeReply decodes the JSON reply to a request that must succeed.
func (s *site) decodeReply(res *http.Response, into any) {
	s.t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != 200 {
		s.t.Fatalf("%s: %s %s", res.Request.URL, res.Status, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		s.t.Fatalf("%s: %v in %s", res.Request.URL, err, b)
	}
}

func (s *site) code(res *http.Response) string {
	s.t.Helper()
	var reply struct {
		Error struct{ Code, Message string }
	}
	b, _ := io.ReadAll(res.Body)
	if err := json.Unmarshal(b, &reply); err != nil || reply.Error.Message == "" {
		s.t.Fatalf(
			"%s %s: %s: no error in JSON: %s", res.Request.Method, res.Request.URL, res.Status, b,
		)
	}
	return fmt.Sprintf("%d %s", res.StatusCode, reply.Error.Code)
}

func ask(sentence string, pairs ...string) string {
	v := url.Values{"q": {sentence}}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "/api/ask?" + v.Encode()
}

type answerJSON struct {
	Query     string
	Kind      string
	Unit      string
	StartMS   float64   `json:"start_ms"`
	StepMS    float64   `json:"step_ms"`
	ElapsedMS []float64 `json:"elapsed_ms"`
	By        []string
	Rows      int
	Series    []struct {
		Key              []string
		Values, Min, Max []*float64
	}
	Rest *struct {
		Rows   int
		Values []*float64
	}
	Loss  []measure.Loss
	Notes []string
	Error *struct{ Code, Message string }
}

func TestAsk(t *testing.T) {
	s := serve(t, newMemory(t).filled(60)).until(start + 60*second)
	var a answerJSON
	s.decodeReply(
		s.get(
			ask("net.device.bytes by device", "from", fmt.Sprint(int64(start/1e6)), "step", "10s"),
		),
		&a,
	)
	if a.Kind != "delta" || a.Unit != "B/s" || a.StartMS != float64(start/1e6) ||
		a.StepMS != 10_000 ||
		len(a.ElapsedMS) != 6 ||
		a.ElapsedMS[5] != 10_000 ||
		a.Rows != 2 ||
		a.Rest != nil {
		t.Errorf("answer %+v", a)
	}
	if len(a.Series) != 2 || a.Series[0].Key[0] != "eth0" || *a.Series[0].Values[3] != 1500 ||
		*a.Series[0].Max[3] != 5100 ||
		*a.Series[0].Min[3] != 1100 {
		t.Errorf("series %+v", a.Series)
	}

	// The rows beyond the first are folded where they add up.
	var top answerJSON
	s.decodeReply(
		s.get(ask("net.device.bytes by device,direction", "from", "-5s", "step", "1s", "top", "1")),
		&top,
	)
	if top.Rows != 4 || len(top.Series) != 1 || top.Rest == nil || top.Rest.Rows != 3 ||
		*top.Rest.Values[0] != 110 ||
		top.Series[0].Min != nil {
		t.Errorf("top %+v", top)
	}
	var mean answerJSON
	s.decodeReply(s.get(ask("tcp.rtt by peer", "from", "-5s", "step", "1s", "top", "1")), &mean)
	if mean.Rows != 2 || len(mean.Series) != 1 || mean.Series[0].Key[0] != "b" || mean.Rest != nil {
		t.Errorf("mean %+v", mean)
	}
	// What was not measured is null: eth1 tx has no value at all and comes last.
	var gap answerJSON
	s.decodeReply(s.get(ask("net.device.bytes by device,direction", "from", "-5s", "step", "1s")), &gap)
	if last := gap.Series[3]; last.Key[0] != "eth1" || last.Key[1] != "tx" ||
		last.Values[0] != nil {
		t.Errorf("unmeasured row %+v", last)
	}
	// A row that was there for a moment weighs less than one that was there all the time, however
	// large it was.
	brief := newMemory(t)
	for i := range 10 {
		rows := []line{{[]string{"steady", "rx"}, 500}}
		if i == 3 {
			rows = append(rows, line{[]string{"brief", "rx"}, 1000})
		}
		brief.add(
			start+measure.Time(i+1)*second, map[measure.StatID][]line{"net.device.bytes": rows},
		)
	}
	var weights answerJSON
	s2 := serve(t, brief).until(start + 10*second)
	s2.decodeReply(
		s2.get(ask("net.device.bytes by device", "from", "-10s", "step", "1s", "top", "1")),
		&weights,
	)
	if weights.Series[0].Key[0] != "steady" || *weights.Rest.Values[3] != 1000 ||
		weights.Rest.Values[4] != nil {
		t.Errorf("weights %+v", weights)
	}
	// A time before the first tick: nothing measured, nothing there.
	var before answerJSON
	s.decodeReply(
		s.get(
			ask(
				"memory.free", "from", fmt.Sprint(int64(start/1e6)-5000), "to",
				fmt.Sprint(int64(start/1e6)), "step", "1s",
			),
		),
		&before,
	)
	if len(before.ElapsedMS) != 5 || before.ElapsedMS[0] != 0 || len(before.Series) != 0 ||
		before.Notes == nil ||
		before.Loss == nil {
		t.Errorf("before %+v", before)
	}
	// columns=N
	for n, want := range map[int]float64{
		60: 1000, 59: 2000, 12: 5000, 7: 10_000, 6: 10_000, 2: 30_000,
	} {
		var a answerJSON
		s.decodeReply(
			s.get(
				ask("memory.free", "from", fmt.Sprint(int64(start/1e6)), "columns", fmt.Sprint(n)),
			),
			&a,
		)
		if a.StepMS != want || len(a.ElapsedMS) > n {
			t.Errorf("columns=%d: step %v, %d cells", n, a.StepMS, len(a.ElapsedMS))
		}
	}
}

func TestAskRefuses(t *testing.T) {
	s := serve(t, newMemory(t).filled(5)).until(start + 5*second)
	for path, want := range map[string]string{
		"/api/ask":                                       "400 bad-request",
		ask("no.such"):                                   "400 unknown-statistic",
		ask("memory.free by"):                            "400 syntax",
		ask("memory.free by cpu"):                        "400 unknown-field",
		ask("memory.free", "from", "yesterday"):          "400 bad-request",
		ask("memory.free", "from", "now", "to", "-1m"):   "400 bad-request",
		ask("memory.free", "step", "0.5ms"):              "400 bad-request",
		ask("memory.free", "step", "1s", "columns", "5"): "400 bad-request",
		ask("memory.free", "columns", "0"):               "400 bad-request",
		ask("memory.free", "colums", "5"):                "400 bad-request",
		ask("memory.free", "top", "-1"):                  "400 bad-request",
		ask("memory.free") + "&q=memory.free":            "400 bad-request",
		ask("memory.free", "from", "-90d", "step", "1s"): "413 too-large",
		ask(strings.Repeat("x", 5000)):                   "400 bad-request",
		ask(`tcp.rtt where peer = "denied"`):             "403 denied",
		ask(`tcp.rtt where peer = "unclear"`):            "404 unclear",
		ask(`tcp.rtt where peer = "unsupported"`):        "501 unsupported",
		ask(`tcp.rtt where peer = "large"`):              "413 too-large",
		ask(`tcp.rtt where peer = "broken"`):             "500 broken",
		"/api/nothing":                                   "404 not-found",
		"/api/ask?%zz":                                   "400 bad-request",
		"/nothing.js":                                    "404 not-found",
	} {
		if got := s.code(s.get(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	var reply struct {
		Error struct {
			Text, Hint       string
			Position, Length int
		}
	}
	b, _ := io.ReadAll(s.get(ask("memory.free by cpu")).Body)
	if err := json.Unmarshal(b, &reply); err != nil || reply.Error.Position != 15 ||
		reply.Error.Length != 3 ||
		reply.Error.Text != "memory.free by cpu" {
		t.Errorf("diagnostic %s", b)
	}
}

// sse reads the next event of a stream.
func sse(t testing.TB, r *bufio.Reader) (name, data string) {
	t.Helper()
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		l = strings.TrimSuffix(l, "\n")
		switch {
		case l == "" && data != "":
			return name, data
		case strings.HasPrefix(l, "event: "):
			name = l[7:]
		case strings.HasPrefix(l, "data: "):
			data += l[6:]
		}
	}
}

func TestLive(t *testing.T) {
	m := newMemory(t).filled(10)
	s := serve(t, m).until(start + 10*second)
	v := url.Values{
		"q": {"net.device.bytes by device", "memory.free", `tcp.rtt where peer = "denied"`},
	}
	r := bufio.NewReader(s.get("/api/live?" + v.Encode()).Body)
	var tick struct {
		AtMS    float64 `json:"at_ms"`
		Answers []answerJSON
	}
	for i := 10; i < 14; i++ { // the newest at once, then each as it comes
		name, data := sse(t, r)
		if err := json.Unmarshal([]byte(data), &tick); err != nil || name != "tick" {
			t.Fatalf("%s: %v: %s", name, err, data)
		}
		if want := float64((start + measure.Time(i)*second) / 1e6); tick.AtMS != want ||
			len(tick.Answers) != 3 {
			t.Fatalf("tick %v with %d answers, want %v", tick.AtMS, len(tick.Answers), want)
		}
		if a := tick.Answers; *a[0].Series[0].Values[0] != 1100 ||
			len(a[1].Series[0].Values) != 1 ||
			a[2].Error == nil ||
			a[2].Error.Code != "denied" {
			t.Fatalf("answers %s", data)
		}
		m.add(start+measure.Time(i+1)*second, m.ticks[0].rows)
	}
	if s.live.viewers.Load() != 1 {
		t.Errorf("%d viewers", s.live.viewers.Load())
	}
}

func TestDatasets(t *testing.T) {
	m := newMemory(t).filled(3)
	s := serve(t, m)
	type set struct {
		ID       int
		Sentence string
		State    string
		Maker    string
		StepMS   float64 `json:"step_ms"`
		CPU      *float64
	}
	var made set
	s.decodeReply(
		s.request("POST", "/api/datasets", `{"sentence":"net.drops by device","step_ms":5000}`),
		&made,
	)
	if made.ID != 6 || made.State != "recording" || made.Maker != "command line" ||
		made.StepMS != 5000 ||
		made.CPU != nil {
		t.Errorf("made %+v", made)
	}
	for _, action := range []string{"suspend", "resume"} {
		var d set
		s.decodeReply(s.request("POST", "/api/datasets/6/"+action, `{}`), &d)
		if want := map[string]string{"suspend": "suspended", "resume": "recording"}[action]; d.State != want {
			t.Errorf("%s: %s", action, d.State)
		}
	}
	s.decodeReply(s.request("POST", "/api/datasets/6/discard", `{"from_ms":1000,"to_ms":2000}`), &made)
	s.decodeReply(s.request("POST", "/api/datasets/6/destroy", `{}`), &struct{}{})
	var all struct{ Datasets []set }
	s.decodeReply(s.get("/api/datasets"), &all)
	if len(all.Datasets) != 5 {
		t.Errorf("%d datasets", len(all.Datasets))
	}
	var audit struct {
		Changes []struct {
			What   string
			FromMS float64 `json:"from_ms"`
		}
	}
	s.decodeReply(s.get("/api/changes"), &audit)
	words := ""
	for _, c := range audit.Changes {
		words += c.What + " "
	}
	if words != "made suspended resumed discarded destroyed " || audit.Changes[3].FromMS != 1000 {
		t.Errorf("changes %+v", audit)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/api/datasets", `{"sentence":"no.such"}`, "400 unknown-statistic"},
		{"/api/datasets", `{"sentence":"net.drops","step_ms":1500}`, "400 bad-request"},
		{"/api/datasets", `{"sentence":"net.drops","step_ms":1e300}`, "400 bad-request"},
		{"/api/datasets", `{"sentance":"net.drops"}`, "400 bad-request"},
		{"/api/datasets", `{"sentence":"net.drops"}{}`, "400 bad-request"},
		{"/api/datasets", `[`, "400 bad-request"},
		{"/api/datasets", `{"sentence":"` + strings.Repeat("x", 100_000) + `"}`, "413 too-large"},
		{"/api/datasets/77/suspend", `{}`, "404 not-found"},
		{"/api/datasets/-1/suspend", `{}`, "404 not-found"},
		{"/api/datasets/4294967297/suspend", `{}`, "404 not-found"},
		{"/api/datasets/1/explode", `{}`, "404 not-found"},
		{"/api/datasets/1/discard", `{}`, "400 bad-request"},
		{"/api/datasets/1/discard", `{"from_ms":5,"to_ms":5}`, "400 bad-request"},
		{"/api/datasets/1/suspend", `{"from_ms":5}`, "400 bad-request"},
	} {
		if got := s.code(s.request("POST", c.path, c.body)); got != c.want {
			t.Errorf("%s %.60s: %s, want %s", c.path, c.body, got, c.want)
		}
	}
	m.refusing = fmt.Errorf("it would cost more than the budget")
	if got := s.code(s.request("POST", "/api/datasets", `{"sentence":"net.drops"}`)); got != "409 refused" {
		t.Error(got)
	}
}

func TestHealthAndCatalogue(t *testing.T) {
	s := serve(t, newMemory(t).filled(3)).until(start + 3*second)
	var h struct {
		Version, Host string
		NowMS         float64 `json:"now_ms"`
		RSS           int     `json:"rss_bytes"`
		Trouble       []string
	}
	s.decodeReply(s.get("/api/health"), &h)
	if h.Version != "1.0" || h.Host != "here" || h.NowMS != float64((start+3*second)/1e6) ||
		h.RSS != 50<<20 ||
		len(h.Trouble) != 1 {
		t.Errorf("health %+v", h)
	}
	var c struct {
		Stats []struct {
			ID, Kind, Unit, Fold, Help string
			RateUnit                   string `json:"rate_unit"`
			Fields                     []struct{ Name, Type string }
		}
	}
	s.decodeReply(s.get("/api/catalogue"), &c)
	if len(c.Stats) != 5 || c.Stats[0].ID != "cpu.time" || c.Stats[0].RateUnit != "ratio" ||
		c.Stats[0].Help != "time <of> CPUs" ||
		c.Stats[0].Fields[1].Name != "mode" ||
		c.Stats[4].Fold != "mean" {
		t.Errorf("catalogue %+v", c)
	}
	var p struct {
		Query, Unit string
		By          []string
	}
	s.decodeReply(s.get("/api/parse?q=cpu.time+by++mode"), &p)
	if p.Query != "cpu.time by mode" || p.Unit != "ratio" || len(p.By) != 1 {
		t.Errorf("parse %+v", p)
	}
}
