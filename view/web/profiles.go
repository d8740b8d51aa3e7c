package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"culprit/measure"
	"culprit/profile"
	"culprit/view"
	"culprit/view/web/api"
)

// What profiles may take. A server lives beside what it watches: what is larger is for `culprit flame`.
const (
	mostProfile  = 256 << 20       // bytes of a file that is sent
	mostUnpacked = 1 << 30         // bytes that it unpacks to
	mostNodes    = 2_000_000       // calls of a profile
	mostShelf    = 32 << 20        // bytes of all profiles that are kept, packed
	mostProfiles = 24              // how many are kept
	profileTime  = 2 * time.Minute // to send one
)

// A storedProfile is a profile that the server keeps for a while, encoded as it is sent.
type storedProfile struct {
	id      string // of its contents
	name    string // what somebody calls it: of a file its name
	kind    string // file or sample
	at      measure.Time
	zipped  []byte // columns, packed by gzip
	size    int    // bytes of them unpacked
	sketch  []byte // of a large one: columns of the calls that are wide enough for a first picture, packed too; nil: it is none
	rough   int    // bytes of them unpacked
	unit    string
	notes   []string
	amount  float64
	samples float64 // 0: not known
	seconds float64 // of CPU time; 0: not known
	nodes   int
	names   int // functions
	depth   int
}

// shelf keeps the newest profiles in memory.
type shelf struct {
	mu  sync.Mutex       // guards all
	all []*storedProfile // the newest last
}

// put keeps a profile; the oldest go when there is no room. One that is there already is the newest again.
func (s *shelf) put(p *storedProfile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(q *storedProfile) bool { return q.id == p.id })
	s.all = append(s.all, p)
	bytes := 0
	for _, q := range s.all {
		bytes += q.weight()
	}
	for len(s.all) > 1 && (len(s.all) > mostProfiles || bytes > mostShelf) {
		bytes -= s.all[0].weight()
		s.all = slices.Delete(s.all, 0, 1)
	}
}

// weight is how many bytes a profile takes.
func (p *storedProfile) weight() int { return len(p.zipped) + len(p.sketch) }

// list gives the profiles, the newest first.
func (s *shelf) list() []*storedProfile {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.all)
	slices.Reverse(all)
	return all
}

// get gives a profile.
func (s *shelf) get(id string) (*storedProfile, error) {
	for _, p := range s.list() {
		if p.id == id {
			return p, nil
		}
	}
	return nil, &fault{status: http.StatusNotFound, Code: "not-found", Message: "there is no profile " + printable(id) + " any more",
		Hint: "a server keeps the newest ones in memory: drop the file again, or take it again"}
}

func (p *storedProfile) appendJSON(b []byte) []byte {
	b = view.AppendString(append(b, `{"id":`...), p.id)
	b = view.AppendString(append(b, `,"name":`...), p.name)
	b = view.AppendString(append(b, `,"kind":`...), p.kind)
	b = api.AppendMillis(append(b, `,"at_ms":`...), int64(p.at))
	b = view.AppendString(append(b, `,"unit":`...), p.unit)
	b = view.AppendNumber(append(b, `,"amount":`...), p.amount)
	orNull := func(v float64) float64 {
		if v <= 0 {
			return measure.NaN
		}
		return v
	}
	b = view.AppendNumber(append(b, `,"samples":`...), orNull(p.samples))
	b = view.AppendNumber(append(b, `,"cpu_seconds":`...), orNull(p.seconds))
	b = strconv.AppendInt(append(b, `,"nodes":`...), int64(p.nodes), 10)
	b = strconv.AppendInt(append(b, `,"functions":`...), int64(p.names), 10)
	b = strconv.AppendInt(append(b, `,"depth":`...), int64(p.depth), 10)
	b = appendStrings(append(b, `,"notes":`...), p.notes)
	return append(b, '}')
}

// tree unpacks the profile.
func (p *storedProfile) tree() (*profile.Tree, error) {
	b, err := unzipped(p.zipped, p.size)
	if err != nil {
		return nil, err
	}
	return profile.ParseColumns(b)
}

// keep puts a tree on the shelf.
func (s *Server) keep(t *profile.Tree, name, kind string) (*storedProfile, error) {
	if t.Len() > mostNodes {
		return nil, tooLargef("the profile has %d calls, more than %d", t.Len(), mostNodes)
	}
	b, err := profile.AppendColumns(nil, t)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	p := &storedProfile{id: hex.EncodeToString(sum[:8]), name: name, kind: kind, at: s.now(), size: len(b), unit: t.Unit, notes: t.Notes, amount: t.Sum(), samples: t.Samples,
		seconds: t.Seconds, nodes: t.Len(), names: len(t.Functions) - 1, depth: t.Depth}
	if p.zipped, err = s.zipped(b); err != nil {
		return nil, err
	}
	sketch, any, err := profile.AppendSketch(nil, t)
	if err == nil && any {
		p.rough = len(sketch)
		p.sketch, err = s.zipped(sketch)
	}
	if err != nil {
		return nil, err
	}
	s.shelf.put(p)
	return p, nil
}

// zipped packs by gzip.
func (s *Server) zipped(b []byte) ([]byte, error) {
	z := s.zippers.Get().(*gzip.Writer)
	defer s.zippers.Put(z)
	var small bytes.Buffer
	z.Reset(&small)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(small.Bytes()), nil
}

func unzipped(b []byte, size int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out := make([]byte, size)
	_, err = io.ReadFull(z, out)
	return out, err
}

func tooLargef(format string, args ...any) *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: fmt.Sprintf(format, args...), Hint: "culprit flame reads profiles of any size"}
}

// profiles lists what is on the shelf.
func (s *Server) profiles(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	b := []byte(`{"profiles":[`)
	for i, p := range s.shelf.list() {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.appendJSON(b)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// readProfile takes a file.
func (s *Server) readProfile(w http.ResponseWriter, r *http.Request) error {
	q, err := parametersOf(r.URL.RawQuery, 0, []string{"name"}, nil)
	if err != nil {
		return err
	}
	name := q.text("name")
	if len(name) > mostName {
		return badf("a name of %d bytes is too long: at most %d", len(name), mostName)
	}
	// A listener without a deadline has none to set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(profileTime))
	ctx, done, err := s.profiling(r.Context())
	if err != nil {
		return err
	}
	defer done()
	var t *profile.Tree
	in, err := unpacked(r.Body, mostUnpacked)
	if err == nil {
		t, err = profile.Read(&careful{ctx: ctx, in: in}, "", profile.Options{})
	}
	if err != nil {
		return unreadable(err)
	}
	p, err := s.keep(t, view.Clean(name), "file")
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, p.appendJSON(nil))
}

// mostName is how long the name of a profile may be.
const mostName = 255

// profiling waits until no other profile is worked on, and gives a context that ends when it takes too long.
func (s *Server) profiling(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, profileTime)
	wait := time.NewTimer(waitForAsk)
	defer wait.Stop()
	select {
	case s.oneProfile <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, nil, ctx.Err()
	case <-wait.C:
		cancel()
		return nil, nil, &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: "another profile is being worked on", Hint: "ask again in a moment"}
	}
	if s.Asked != nil {
		s.Asked()
	}
	return ctx, func() {
		cancel()
		<-s.oneProfile
	}, nil
}

// unreadable says why a file can't be read.
func unreadable(err error) error {
	var wrong *profile.ParseError
	var long *http.MaxBytesError
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &long):
		return tooLargef("the file is larger than %d MB", long.Limit>>20)
	case errors.As(err, &wrong):
		return &fault{status: http.StatusBadRequest, Code: "unreadable", Message: wrong.Error(),
			Hint: "perf script, DTrace's and bpftrace's stacks, folded stacks, pprof and speedscope are read, packed by gzip or not"}
	case errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &fault{status: http.StatusBadRequest, Code: "unreadable", Message: "the file did not come whole: " + err.Error()}
}

// profileColumns answers with a profile, or with what a first picture of it needs.
func (s *Server) profileColumns(w http.ResponseWriter, r *http.Request) error {
	q, err := parametersOf(r.URL.RawQuery, 0, []string{"id", "sketch"}, nil)
	if err != nil {
		return err
	}
	first := q.text("sketch")
	if first != "" && first != "0" && first != "1" {
		return badf("sketch is %s, and may be 0 or 1", printable(first))
	}
	if _, ok := stretchOf(q.text("id")); ok {
		ctx, done, err := s.profiling(r.Context())
		if err != nil {
			return err
		}
		defer done()
		t, err := s.treeOf(ctx, q.text("id"))
		if err != nil {
			return err
		}
		b, err := profile.AppendColumns(nil, t)
		if err != nil {
			return err
		}
		return s.send(w, r, profile.ColumnsType, b)
	}
	p, err := s.shelf.get(q.text("id"))
	if err != nil {
		return err
	}
	b, size := p.zipped, p.size
	if first == "1" && p.sketch != nil {
		b, size = p.sketch, p.rough
	}
	h := w.Header()
	h.Set("Content-Type", profile.ColumnsType)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	if accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
	} else if b, err = unzipped(b, size); err != nil {
		return err
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // who is gone needs no answer
	return nil
}
