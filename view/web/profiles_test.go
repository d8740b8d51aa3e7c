package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	"culprit/profile"
)

// upload uploads a profile and returns the server's description of it.
func (s *site) upload(name, text string) (reply struct {
	ID, Name, Kind, Unit    string
	Amount                  float64
	Nodes, Functions, Depth int
	Notes                   []string
}) {
	s.t.Helper()
	s.decodeReply(s.drop("?name="+name, text), &reply)
	return reply
}

// drop sends a file.
func (s *site) drop(query, text string) *http.Response {
	s.t.Helper()
	return s.request(
		"POST", "/api/profiles"+query, text, "Content-Type", "application/octet-stream",
	)
}

const stacks = "main;work;copy_[k] 3\nmain;idle 1\n"

func TestUploadedProfile(t *testing.T) {
	s := serve(t, newMemory(t))
	reply := s.upload("before.folded", stacks)
	if reply.Name != "before.folded" || reply.Kind != "file" || reply.Unit != "samples" ||
		reply.Amount != 4 ||
		reply.Nodes != 5 ||
		reply.Functions != 4 ||
		reply.Depth != 3 {
		t.Errorf("%+v", reply)
	}
	for _, accept := range []string{"gzip", "identity"} {
		res := s.get("/api/profile?id="+reply.ID, "Accept-Encoding", accept)
		body := io.Reader(res.Body)
		if res.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		} else if accept == "gzip" {
			t.Error("not packed")
		}
		b, err := io.ReadAll(body)
		if err != nil || res.StatusCode != 200 ||
			res.Header.Get("Content-Type") != profile.ColumnsType {
			t.Fatalf("%s %v %v", res.Status, res.Header, err)
		}
		tree, err := profile.ParseColumns(b)
		if err != nil || tree.Sum() != 4 || tree.Len() != 5 {
			t.Errorf("%+v %v", tree, err)
		}
	}
	// The same again is the same profile, under its new name.
	if again := s.upload("again", stacks); again.ID != reply.ID {
		t.Errorf("%s and %s", again.ID, reply.ID)
	}
	var list struct{ Profiles []struct{ ID, Name string } }
	s.decodeReply(s.get("/api/profiles"), &list)
	if len(list.Profiles) != 1 || list.Profiles[0].Name != "again" {
		t.Errorf("%+v", list)
	}
}

// A large profile has a sketch for a first picture. A small one has none.
func TestSketchOfAProfile(t *testing.T) {
	s := serve(t, newMemory(t))
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "main;f%d;g 1\n", i)
	}
	large, small := s.upload("large", b.String()+"main;work 90000\n"), s.upload("small", stacks)
	columns := func(query string) []byte {
		t.Helper()
		res := s.get("/api/profile?"+query, "Accept-Encoding", "identity")
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 ||
			res.Header.Get("Content-Type") != profile.ColumnsType {
			t.Fatalf("%s %v %v", res.Status, res.Header, err)
		}
		return b
	}
	whole, sketch := columns("id="+large.ID), columns("sketch=1&id="+large.ID)
	if tree, err := profile.ParseColumns(whole); err != nil || tree.Len() != large.Nodes {
		t.Errorf("the whole: %v", err)
	}
	if !bytes.Equal(whole, columns("sketch=0&id="+large.ID)) {
		t.Error("sketch=0 is another one")
	}
	if want := fmt.Sprintf(`"of":%d`, large.Nodes); len(sketch) > 4000 || sketch[6] != 2 ||
		!bytes.Contains(sketch, []byte(want)) {
		t.Errorf("%d bytes: %.200q", len(sketch), sketch)
	}
	if tree, err := profile.ParseColumns(columns("sketch=1&id=" + small.ID)); err != nil ||
		tree.Len() != small.Nodes {
		t.Errorf("a small one: %v", err)
	}
	if got := s.code(s.get("/api/profile?sketch=yes&id=" + small.ID)); !strings.HasPrefix(
		got, "400 ",
	) {
		t.Error(got)
	}
}

// The cache holds some profiles and evicts the oldest.
func TestProfileCacheIsBounded(t *testing.T) {
	s := serve(t, newMemory(t))
	first := s.upload("first", stacks)
	for i := range maxProfiles {
		s.upload("more", fmt.Sprintf("main;f%d 1\n", i))
	}
	if got := s.code(s.get("/api/profile?id=" + first.ID)); got != "404 not-found" {
		t.Errorf("the first: %s", got)
	}
	var b profileCache
	for i := range 3 {
		b.put(&storedProfile{
			id: fmt.Sprint(i), packedProfile: packedProfile{columns: make([]byte, maxProfileBytes/2)},
		})
	}
	if all := b.list(); len(all) != 2 || all[0].id != "2" {
		t.Errorf("%d profiles, each half as large as the cache", len(all))
	}
}

func packed(t *testing.T, b []byte, times int) string {
	t.Helper()
	for range times {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		b = out.Bytes()
	}
	return string(b)
}

func TestHostileProfiles(t *testing.T) {
	s := serve(t, newMemory(t))
	whole := packed(t, []byte(strings.Repeat(stacks, 1000)), 1)
	for _, c := range []struct{ what, body, want string }{
		{"nothing", "", "400 unreadable"},
		{"no stacks", "these are no stacks", "400 unreadable"},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00", "400 unreadable"},
		{"packed", whole, "200 "},
		{"packed twice", packed(t, []byte(stacks), 2), "200 "},
		{"packed three times", packed(t, []byte(stacks), 3), "400 unreadable"},
		{"packed five times", packed(t, []byte(stacks), 5), "400 unreadable"},
		{"cut off", whole[:len(whole)-9], "400 unreadable"},
		{"gzip's first bytes alone", "\x1f\x8b", "400 unreadable"},
		{"a script as a name", "<script>alert(1)</script>;b 1\n", "200 "},
		{"a huge amount", "a;b 1e400\nc 1\n", "200 "},
	} {
		res := s.drop("", c.body)
		got := "200 "
		if res.StatusCode != 200 {
			got = s.code(res)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	for _, c := range []struct {
		what    string
		path    string
		headers []string
		want    string
	}{
		{"without the header", "", []string{"X-Culprit", ""}, "403 forbidden"},
		{"as JSON", "", []string{"Content-Type", "application/json"}, "415 bad-request"},
		{"as a form", "", []string{"Content-Type", "multipart/form-data; boundary=x"}, "415 bad-request"},
		{"from another site", "", []string{"Origin", "https://evil.example"}, "403 wrong-origin"},
		{"without a token", "", []string{"Authorization", ""}, "401 unauthorized"},
		{"an unknown parameter", "?nam=x", nil, "400 bad-request"},
		{"a long name", "?name=" + strings.Repeat("x", 300), nil, "400 bad-request"},
	} {
		headers := append([]string{"Content-Type", "application/octet-stream"}, c.headers...)
		res := s.request("POST", "/api/profiles"+c.path, stacks, headers...)
		if got := s.code(res); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	for _, path := range []string{"/api/profiles", "/api/profile?id=x"} {
		if got := s.code(s.get(path, "Authorization", "")); got != "401 unauthorized" {
			t.Errorf("%s without a token: %s", path, got)
		}
	}
	if got := s.code(s.get("/api/profile?id=../../etc/passwd")); got != "404 not-found" {
		t.Error(got)
	}
	// Elsewhere a file is too large.
	if got := s.code(s.request("POST", "/api/datasets", strings.Repeat(" ", maxBody+1))); got != "413 too-large" &&
		got != "400 bad-request" {
		t.Error(got)
	}
}

// A file that unpacks to too much, or whose profile takes too much memory, is refused. The server
// continues.
func TestProfilesThatGrow(t *testing.T) {
	large := &profile.UnpackedError{Limit: maxUnpacked}
	if got := faultOf(unreadable(large)); got.Code != "too-large" {
		t.Errorf("%v", got)
	}
	// Each stack is new, and each of its frames a node.
	_, err := profile.Read(t.Context(), &branching{}, "", profile.Options{Memory: maxGrowth})
	if err == nil || faultOf(unreadable(err)).Code != "too-large" {
		t.Errorf("%v", err)
	}
}

// branching is an endless file of different stacks.
type branching struct {
	n    int
	left []byte
}

func (g *branching) Read(b []byte) (int, error) {
	for len(g.left) < 64<<10 {
		g.n++
		g.left = fmt.Appendf(g.left, "f%d;a;b;c;d;e;f;g;h;i;j;k;l;m;n;o;p 1\n", g.n)
	}
	n := copy(b, g.left)
	g.left = g.left[n:]
	return n, nil
}

// sampler returns a Config.Sample that records its argument in asked and returns one profile.
func sampler(asked *[]Sampling) func(context.Context, Sampling) (*Sampled, error) {
	return func(ctx context.Context, q Sampling) (*Sampled, error) {
		if asked != nil {
			*asked = append(*asked, q)
		}
		if q.Hz == 13 {
			return nil, &measure.Denied{Doing: "sample", Needs: "CAP_PERFMON"}
		}
		if q.Hz == 11 {
			return &Sampled{Tree: profile.NewBuilder().Tree()}, nil
		}
		if q.Hz == 17 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		t := profile.FromSamples(
			slices.Values(
				[]profile.Sampled{
					{
						Process: "sh",
						Kernel:  []string{"kernel`do_idle+0x1"},
						Count:   12,
						Amount:  12,
					},
				},
			),
			profile.SampleTimes{},
		)
		t.Taken = profile.Taken{At: start, Over: q.For}
		return &Sampled{Tree: t, CPU: 250 * measure.Millisecond}, nil
	}
}

func TestSample(t *testing.T) {
	var asked []Sampling
	s := serve(t, newMemory(t), func(s *Server) { s.Sample = sampler(&asked) })
	var reply struct {
		ID, Name, Kind string
		FromMS         float64 `json:"from_ms"`
		ToMS           float64 `json:"to_ms"`
		Amount         float64
		Notes          []string
	}
	s.decodeReply(
		s.request(
			"POST", "/api/profiles/take", `{"seconds":0.5,"hz":49,"cpus":[1],"only":"kernel"}`,
		),
		&reply,
	)
	if reply.FromMS != float64(start/1e6) || reply.ToMS-reply.FromMS != 500 {
		t.Errorf("taken from %.0f to %.0f", reply.FromMS, reply.ToMS)
	}
	if reply.Kind != "sample" || reply.Amount != 12 ||
		reply.Name != "0.5 s at 49 Hz, kernel, CPU [1]" ||
		len(reply.Notes) != 1 ||
		!strings.Contains(reply.Notes[0], "0.25 s of CPU") {
		t.Errorf("%+v", reply)
	}
	s.decodeReply(s.request("POST", "/api/profiles/take", `{}`), &reply)
	s.decodeReply(
		s.request(
			"POST", "/api/profiles/take", `{"seconds":2,"of":"off-cpu","pids":[7],"threads":[8],`+
				`"processes":["nginx"],"cgroups":["/system.slice"]}`,
		),
		&reply,
	)
	if want := "2 s off the CPU, process 7, thread 8, nginx, /system.slice"; reply.Name != want {
		t.Errorf("%q, want %q", reply.Name, want)
	}
	want := []Sampling{
		{
			Of: "cpu", Hz: 49, CPUs: []int{1}, For: 500 * measure.Millisecond, Kernel: true,
			Times: true,
		},
		{Of: "cpu", Hz: 99, For: 10 * measure.Second, Times: true},
		{
			Of: "off-cpu", Hz: 99, For: 2 * measure.Second, PIDs: []int{7}, TIDs: []int{8},
			Processes: []string{"nginx"}, Cgroups: []string{"/system.slice"},
		},
	}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("%+v", asked)
	}
	for body, want := range map[string]string{
		`{"seconds":0}`: "400 bad-request", `{"seconds":61}`: "400 bad-request", `{"hz":0}`: "400 bad-request", `{"hz":100000}`: "400 bad-request", `{"cpus":[-1]}`: "400 bad-request",
		`{"of":"gpu"}`: "400 bad-request", `{"of":"locks","hz":99}`: "400 bad-request",
		`{"pids":[-1]}`: "400 bad-request", `{"processes":[""]}`: "400 bad-request",
		`{"cgroups":["a/../b"]}`: "400 bad-request", `{"pids":[` + strings.Repeat("1,", 64) + `1]}`: "400 bad-request",
		`{"processes":["` + strings.Repeat("x", 256) + `"]}`: "400 bad-request", `{"hz":11}`: "404 not-found",
		`{"only":"x"}`: "400 bad-request", `{"pid":1}`: "400 bad-request", `[]`: "400 bad-request", ``: "400 bad-request", `{"hz":13}`: "403 denied",
	} {
		if got := s.code(s.request("POST", "/api/profiles/take", body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	if got := s.code(s.request("POST", "/api/profiles/take", `{}`, "Authorization", "")); got != "401 unauthorized" {
		t.Error(got)
	}
	if got := s.code(s.request("POST", "/api/profiles/take", `{}`, "X-Culprit", "")); got != "403 forbidden" {
		t.Error(got)
	}
	// One sampling runs at a time. It ends when its client disconnects.
	r, err := http.NewRequest("POST", s.base+"/api/profiles/take", strings.NewReader(`{"hz":17}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"Authorization": "Bearer " + token, "X-Culprit": "1", "Content-Type": "application/json"} {
		r.Header.Set(name, v)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r.WithContext(ctx)) //nolint:bodyclose // there is none
		gone <- err
	}()
	wait := func(n int) {
		deadline := time.Now().Add(10 * time.Second)
		for len(s.profiles.sampling) != n {
			if time.Now().After(deadline) {
				t.Fatalf("%d samplings run", len(s.profiles.sampling))
			}
			time.Sleep(time.Millisecond)
		}
	}
	wait(1)
	if got := s.code(s.request("POST", "/api/profiles/take", `{}`)); got != "503 busy" {
		t.Error(got)
	}
	leave()
	if err := <-gone; err == nil {
		t.Error("it was answered")
	}
	wait(0)
	none := serve(t, newMemory(t))
	if got := none.code(none.request("POST", "/api/profiles/take", `{}`)); got != "501 unsupported" {
		t.Error(got)
	}
}

func TestCompareProfiles(t *testing.T) {
	s := serve(t, newMemory(t))
	before, after := s.upload(
		"before", "main;recv;lookup 100\nmain;recv;copy 500\nmain;idle 400\n",
	).ID, s.upload("after", "main;recv;lookup 1100\nmain;recv;copy 500\nmain;idle 400\n").ID
	var reply struct {
		Normalisation string
		Functions     []struct {
			Function string
			After    float64 `json:"self_after"`
			Explains float64 `json:"explains_self"`
		}
		More int
	}
	both := "before=" + before + "&after=" + after
	s.decodeReply(s.get("/api/profile/changes?top=2&"+both), &reply)
	if len(reply.Functions) != 2 || reply.Functions[0].Function != "lookup" ||
		reply.Functions[0].After != 0.55 ||
		reply.Functions[0].Explains != 1 ||
		reply.More != 3 ||
		!strings.Contains(reply.Normalisation, "per sample") {
		t.Errorf("%+v", reply)
	}
	s.decodeReply(s.get("/api/profile/changes?per=work&before_work=10&after_work=20&"+both), &reply)
	if reply.Functions[0].After != 55 {
		t.Errorf("per work: %+v", reply)
	}
	res := s.get("/api/profile/diff?"+both, "Accept-Encoding", "identity")
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || !bytes.HasPrefix(b, []byte("CLPF\x01\x00\x01\x00")) {
		t.Errorf("%s: %.20q %v", res.Status, b, err)
	}
	for query, want := range map[string]string{
		"before=" + before: "404 not-found", both + "&per=hour": "400 bad-request", both + "&per=work": "400 bad-request", both + "&per=work&before_work=0&after_work=1": "400 bad-request",
		both + "&per=work&before_work=1&after_work=Inf": "400 bad-request", both + "&per=cpu-second": "409 incomparable", both + "&top=1": "400 bad-request",
	} {
		if got := s.code(s.get("/api/profile/diff?" + query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if n := len(s.profiles.reading); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

func TestProfileOfRecordedRange(t *testing.T) {
	for name, want := range map[string]measure.Interval{
		"1000..2500": {Start: 1e9, End: 2.5e9}, "1000..2500,pid:7": {Start: 1e9, End: 2.5e9},
		"1000..2500,": {}, "": {}, "..": {}, "1000": {}, "2500..1000": {}, "1..1": {}, "-1..5": {}, "1..99999999999999999999": {}, "364c47b6df8e7ab7": {}, "1..2..3": {},
	} {
		if got, _, ok := parseRange(name); got != want || ok != (want != measure.Interval{}) {
			t.Errorf("%q: %v %v", name, got, ok)
		}
	}
	s := serve(t, newMemory(t))
	for query, want := range map[string]string{
		"id=1..2000000000000": "413 too-large", "id=2..1": "404 not-found",
		"id=1..2,pid:x": "400 bad-request", "id=1..2,pid:": "400 bad-request",
		"id=1..2,thread:7": "400 bad-request", "id=1..2,user:7": "400 bad-request",
		"id=1..2,process:" + strings.Repeat("x", 256): "400 bad-request",
	} {
		if got := s.code(s.get("/api/profile?" + query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
