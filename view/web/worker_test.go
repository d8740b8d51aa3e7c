package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
	"culprit/wire"
	"culprit/worker"
)

// workersOf returns a pool whose workers are goroutines of the test, with these jobs.
func workersOf(t testing.TB, jobs map[string]worker.Job) *worker.Pool {
	p := worker.NewPool(func(context.Context) (*worker.Process, error) {
		mine, its := net.Pipe()
		go worker.Serve(its, jobs, //nolint:errcheck // it is closed
			func() measure.Span { return 0 })
		return &worker.Process{Conn: mine, Kill: func() {}}, nil
	})
	t.Cleanup(p.Close)
	return p
}

// reply returns the status and the body of a reply, without the time of a profile.
func (s *site) reply(res *http.Response) (int, string) {
	s.t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, regexp.MustCompile(`"at_ms":[0-9.]+`).ReplaceAllString(string(b), "")
}

// A worker reads and compares profiles as this process does, and has the same errors.
func TestWorkersReplyAlike(t *testing.T) {
	m := newMemory(t).filled(10)
	here := serve(t, m)
	there := serve(t, m, func(s *Server) {
		s.Workers = workersOf(t, map[string]worker.Job{
			ProfileJob: NewProfileJob(0), DiffJob: NewDiffJob(),
		})
	})
	folded := "main;a;b 3\nmain;c 1\n"
	long := strings.Repeat("main;x;y;z 1\nmain;w 2\n", 50_000)
	for name, file := range map[string]string{
		"folded": folded, "other.folded": "main;a;b 1\nmain;d 9\n", "gzip": packed(t, []byte(folded), 1),
		"gzip twice": packed(t, []byte(folded), 2), "gzip thrice": packed(t, []byte(folded), 3),
		"long": long, "nothing": "", "noise": "\x00\x01\x02", "a cut gzip": packed(t, []byte(long), 1)[:99],
		"a wrong line": "main;a 1\nmain;b\n", "names": "<img>;\xff\xfe;\x1b[31m 5\n",
	} {
		t.Run(name, func(t *testing.T) {
			status, body := here.reply(here.drop("?name=x", file))
			got, gotBody := there.reply(there.drop("?name=x", file))
			if got != status || gotBody != body {
				t.Errorf("a worker: %d %.300s, want %d %.300s", got, gotBody, status, body)
			}
		})
	}
	a, b := there.upload("a", folded).ID, there.upload("b", "main;a;b 1\nmain;d 9\n").ID
	for _, path := range []string{
		"/api/profile?id=" + a,
		"/api/profile/diff?before=" + a + "&after=" + b,
		"/api/profile/diff?before=" + b + "&after=" + a + "&per=work&before_work=3&after_work=0.5",
		"/api/profile/changes?before=" + a + "&after=" + b + "&top=2",
		"/api/profile/changes?before=" + a + "&after=" + b,
		"/api/profile/diff?before=" + a + "&after=none",
		"/api/profile/diff?before=" + a + "&after=" + b + "&per=cpu-second",
		"/api/profile/diff?before=1000..2000&after=" + b,
	} {
		for _, encoding := range []string{"identity", "gzip"} {
			t.Run(path+" "+encoding, func(t *testing.T) {
				status, body := here.reply(here.get(path, "Accept-Encoding", encoding))
				res := there.get(path, "Accept-Encoding", encoding)
				got, gotBody := there.reply(res)
				if res.Header.Get("Content-Encoding") == "gzip" && !strings.HasPrefix(body, "\x1f\x8b") {
					unpacked, err := gunzip([]byte(gotBody), len(body))
					if err != nil {
						t.Fatal(err)
					}
					gotBody = string(unpacked)
				}
				if got != status || strings.TrimSpace(gotBody) != strings.TrimSpace(body) {
					t.Errorf("a worker: %d %.200q, want %d %.200q", got, gotBody, status, body)
				}
			})
		}
	}
}

// A worker that dies, replies nonsense or has a bug is an error of its request.
func TestBrokenWorkers(t *testing.T) {
	replies := func(b string) worker.Job {
		return func(_ context.Context, _ []byte, _ worker.Ask, w io.Writer) error {
			_, err := io.WriteString(w, b)
			return err
		}
	}
	for _, tt := range []struct {
		name string
		job  worker.Job
		want string
	}{
		{"nothing", replies(""), "503 busy"},
		{"another kind", replies("\x09"), "503 busy"},
		{"a cut profile", replies("\x01\x05ab"), "503 busy"},
		{"an error of status 200", replies("\x00\xc8\x01\x00\x00\x00"), "503 busy"},
		{"a profile without columns", replies("\x01" + strings.Repeat("\x00", 33)), "503 busy"},
		{"too much", replies(strings.Repeat("x", maxPackedProfile+1)), "413 too-large"},
		{"a bug", func(context.Context, []byte, worker.Ask, io.Writer) error { panic("bug") },
			"500 broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, newMemory(t).filled(2), func(s *Server) {
				s.Workers = workersOf(t, map[string]worker.Job{ProfileJob: tt.job})
			})
			if got := s.code(s.drop("", "main 1\n")); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if n := len(s.profiles.reading); n != 0 {
				t.Errorf("%d places are taken", n)
			}
		})
	}
	s := serve(t, newMemory(t), func(s *Server) {
		s.Workers = worker.NewPool(func(context.Context) (*worker.Process, error) {
			return nil, errors.New("no more processes")
		})
	})
	if got := s.code(s.drop("", "main 1\n")); got != "503 busy" {
		t.Errorf("no worker can be started: %s", got)
	}
}

// FuzzReply: whatever a worker replies, the server reads or refuses it in little memory.
func FuzzReply(f *testing.F) {
	p, err := readProfile(f.Context(), strings.NewReader(stacks), maxGrowth)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.append([]byte{replyProfile}))
	f.Add(faultOf(errors.New("x")).append([]byte{replyFault}))
	c := comparison{changes: true, top: 3}
	f.Add(c.append(nil))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if p, err := decodeReply(bytes.Clone(b)); err == nil && p.columnsSize < 1<<20 {
			_, _ = p.id() // any error will do
		}
		if c, err := readComparison(b); err == nil && c.top < 0 {
			t.Error(c, wire.ErrInvalid)
		}
	})
}
