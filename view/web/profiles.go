package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/profile"
	"culprit/view"
	"culprit/worker"
)

// Limits of profiles. The server runs on the machine that it watches: `culprit flame` reads larger
// ones. systemd slows the server down from 400 MB on.
const (
	maxGrowth      = 192 << 20                    // bytes that a profile takes while it is read
	maxProfileFile = 256 << 20                    // bytes of an uploaded file
	maxUnpacked    = 1 << 30                      // bytes of it after unpacking
	maxCalls       = 2_000_000                    // calls of a profile
	maxProfileName = 255                          // bytes
	maxRecorded    = 7 * 24 * 60 * measure.Minute // time range of a profile of recorded samples
	profileTimeout = 2 * time.Minute              // to upload and read a profile
)

// profiles reads, samples, keeps and compares profiles.
type profiles struct {
	*core
	cache    profileCache
	reading  chan struct{} // holds one value while a profile is read
	trusted  chan struct{} // and one while one of a trusted listener is read
	sampling chan struct{} // holds one value while the CPUs are sampled
	scrapes  chan struct{} // holds one value for each running scrape
	lateness time.Duration // how late a tick of a scrape may be
}

func newProfiles(c *core) *profiles {
	return &profiles{core: c, reading: make(chan struct{}, 1),
		trusted: make(chan struct{}, 1), sampling: make(chan struct{}, 1),
		scrapes: make(chan struct{}, maxScrapes), lateness: maxLateness}
}

// list replies with the cached profiles.
func (s *profiles) list(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	b := []byte(`{"profiles":[`)
	for i, p := range s.cache.list() {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.appendJSON(b)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// upload reads a profile from the body of a request.
func (s *profiles) upload(w http.ResponseWriter, r *http.Request) error {
	q, err := parametersOf(r.URL.RawQuery, 0, []string{"name"}, nil)
	if err != nil {
		return err
	}
	name := q.text("name")
	if len(name) > maxProfileName {
		return badRequest("a name of %d bytes is too long: at most %d", len(name), maxProfileName)
	}
	// Fails only for the listener of a test, which has no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(profileTimeout))
	ctx, release, err := s.acquireReading(r.Context())
	if err != nil {
		return err
	}
	defer release()
	packed, err := s.readUploaded(ctx, r)
	if err != nil {
		return err
	}
	p, err := s.add(packed, view.Clean(name), "file")
	if err != nil { // a worker has returned nonsense
		return busy(worker.ErrEnded.Error()+": "+err.Error(), "repeat it in a moment")
	}
	return s.sendJSON(w, r, p.appendJSON(nil))
}

// acquireReading waits until no other profile is read. The context ends after profileTimeout. The
// caller must call release at the end.
func (s *profiles) acquireReading(
	ctx context.Context,
) (limited context.Context, release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	slot, err := takeSlot(ctx, s.reading, s.trusted)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	if slot == nil {
		cancel()
		return nil, nil, busy("another profile is being read", "repeat it in a moment")
	}
	if s.QueryStarted != nil {
		s.QueryStarted()
	}
	return ctx, func() {
		cancel()
		<-slot
	}, nil
}

// allowLate moves the write deadline of a request, for a reply that takes a time to make.
func allowLate(w http.ResponseWriter, by time.Duration) {
	// Fails only for the listener of a test, which has no deadline.
	deadline := time.Now().Add(by + replyTimeout)
	_ = http.NewResponseController(w).SetWriteDeadline(deadline)
}

func profileTooLarge(format string, args ...any) *fault {
	return tooLarge(fmt.Sprintf(format, args...), "culprit flame reads profiles of any size")
}

// unreadable returns the reply to an error of reading an uploaded file.
func unreadable(err error) error {
	var wrong *profile.ParseError
	var long *http.MaxBytesError
	var memory *profile.MemoryError
	var unpacked *profile.UnpackedError
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &memory):
		return profileTooLarge("%s", memory.Error())
	case errors.As(err, &unpacked):
		return profileTooLarge("%s", unpacked.Error())
	case errors.As(err, &long):
		return profileTooLarge("the file is larger than %d MB", long.Limit>>20)
	case errors.As(err, &wrong):
		return &fault{
			status: http.StatusBadRequest, Code: "unreadable", Message: wrong.Error(),
			Hint: "perf script, DTrace's and bpftrace's stacks, folded stacks, pprof and " +
				"speedscope are read, packed by gzip, zstd, bzip2 or not",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &fault{
		status: http.StatusBadRequest, Code: "unreadable",
		Message: "the file did not arrive completely: " + err.Error(),
	}
}

// columns replies with a profile, or with its sketch.
func (s *profiles) columns(w http.ResponseWriter, r *http.Request) error {
	q, err := parametersOf(r.URL.RawQuery, 0, []string{"id", "sketch"}, nil)
	if err != nil {
		return err
	}
	sketch := q.text("sketch")
	if sketch != "" && sketch != "0" && sketch != "1" {
		return badRequest("sketch is %s, and may be 0 or 1", printable(sketch))
	}
	if _, ok := parseRange(q.text("id")); ok {
		return s.recordedColumns(w, r, q.text("id"))
	}
	p, err := s.cache.get(q.text("id"))
	if err != nil {
		return err
	}
	b, size := p.columns, p.columnsSize
	if sketch == "1" && p.sketch != nil {
		b, size = p.sketch, p.sketchSize
	}
	h := w.Header()
	h.Set("Content-Type", profile.ColumnsType)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	if accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
	} else if b, err = gunzip(b, size); err != nil {
		return err
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // fails only if the client is gone
	return nil
}

// recordedColumns replies with the profile of the samples that were recorded in a time range.
func (s *profiles) recordedColumns(w http.ResponseWriter, r *http.Request, id string) error {
	ctx, release, err := s.acquireReading(r.Context())
	if err != nil {
		return err
	}
	defer release()
	t, err := s.tree(ctx, id)
	if err != nil {
		return err
	}
	b, err := profile.AppendColumns(nil, t)
	if err != nil {
		return err
	}
	return s.replies.send(w, r, profile.ColumnsType, b)
}

// parseRange parses the ID of recorded samples: a time range in milliseconds since the epoch,
// 1763812800000..1763812860000.
func parseRange(id string) (over measure.Interval, ok bool) {
	first, last, ok := strings.Cut(id, "..")
	from, err := strconv.ParseUint(first, 10, 43)
	to, err2 := strconv.ParseUint(last, 10, 43)
	if !ok || err != nil || err2 != nil || from >= to {
		return measure.Interval{}, false
	}
	start, end := measure.Time(from)*1e6, measure.Time(to)*1e6
	return measure.Interval{Start: start, End: end}, true
}

// tree returns the profile with an ID: a cached one, or that of samples recorded in a time range.
func (s *profiles) tree(ctx context.Context, id string) (*profile.Tree, error) {
	over, ok := parseRange(id)
	if !ok {
		p, err := s.cache.get(id)
		if err != nil {
			return nil, err
		}
		return p.tree()
	}
	if over.Span() > maxRecorded {
		return nil, tooLarge("a profile of more than a week", "choose a shorter time")
	}
	// With idle CPUs: the page hides them, and shows their share.
	got, err := profile.AskRecorded(ctx, s.Machine, profile.Part{Over: over, Idle: true})
	if err != nil {
		return nil, err
	}
	t := got.Tree
	if t.Len() > maxCalls {
		return nil, profileTooLarge("the profile has %d calls, more than %d", t.Len(), maxCalls)
	}
	if got.Samples < 0.9*got.Expected && got.Expected > 20 {
		t.Notes = append(t.Notes, fmt.Sprintf("%.0f samples of %.0f that were due",
			got.Samples, got.Expected))
	}
	for _, l := range got.Loss {
		t.Notes = append(t.Notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	return t, nil
}

// Sampling says how to sample the CPUs.
type Sampling struct {
	Hz     int   // samples per second and CPU
	CPUs   []int // empty: all
	For    measure.Span
	Kernel bool // only samples inside the kernel
	User   bool // only samples outside the kernel
}

// Sampled is the result of a sampling.
type Sampled struct {
	Tree *profile.Tree
	CPU  measure.Span // CPU time of the process meanwhile, with all its other work; 0: unknown
}

// Limits of a sampling. With the maxima of both, a CPU yields 60,000 samples.
const (
	maxHz       = 999
	maxSampling = 60 * measure.Second
	maxCPUs     = 1024 // in a request
)

// samplingBody is the body of a request to sample.
type samplingBody struct {
	Seconds *float64 `json:"seconds"`
	Hz      *int     `json:"hz"`
	CPUs    []int    `json:"cpus"`
	Only    string   `json:"only"`
}

// parse checks the values and fills in the defaults: 10 seconds, 99 Hz, all CPUs.
func (b *samplingBody) parse() (Sampling, error) {
	q := Sampling{Hz: 99, For: 10 * measure.Second, CPUs: b.CPUs}
	if b.Seconds != nil {
		if !(*b.Seconds >= 0.1 && *b.Seconds <= maxSampling.Seconds()) {
			return q, badRequest("seconds: %v is not from 0.1 to %v",
				*b.Seconds, maxSampling.Seconds())
		}
		q.For = measure.Span(*b.Seconds * float64(measure.Second))
	}
	if b.Hz != nil {
		if q.Hz = *b.Hz; q.Hz < 1 || q.Hz > maxHz {
			return q, badRequest("hz: %d is not from 1 to %d", q.Hz, maxHz)
		}
	}
	if len(q.CPUs) > maxCPUs {
		return q, badRequest("cpus: %d are more than %d", len(q.CPUs), maxCPUs)
	}
	for _, c := range q.CPUs {
		if c < 0 {
			return q, badRequest("cpus: there is no CPU %d", c)
		}
	}
	switch b.Only {
	case "":
	case "kernel":
		q.Kernel = true
	case "user":
		q.User = true
	default:
		return q, badRequest("only: %q is neither kernel nor user", printable(b.Only))
	}
	return q, nil
}

// name returns the name of the profile.
func (b *samplingBody) name(q Sampling) string {
	name := strconv.FormatFloat(q.For.Seconds(), 'g', 4, 64) + " s at " + strconv.Itoa(q.Hz) + " Hz"
	if b.Only != "" {
		name += ", " + b.Only
	}
	if len(q.CPUs) > 0 {
		name += ", CPU " + fmt.Sprint(q.CPUs)
	}
	return name
}

// sample samples the CPUs for some seconds and replies at the end. It stops early if the client
// leaves.
func (s *profiles) sample(w http.ResponseWriter, r *http.Request) error {
	if s.Sample == nil {
		return fmt.Errorf("this server can't sample: %w", measure.ErrUnsupported)
	}
	var body samplingBody
	if err := readBody(r, &body); err != nil {
		return err
	}
	q, err := body.parse()
	if err != nil {
		return err
	}
	select {
	case s.sampling <- struct{}{}:
		defer func() { <-s.sampling }()
	default:
		return busy("this machine is being sampled already", "repeat it when that is over")
	}
	allowLate(w, time.Duration(q.For))
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(s.ended, end)()
	got, err := s.Sample(ctx, q)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if got.CPU > 0 {
		note := fmt.Sprintf("the server used %.2f s of CPU time meanwhile, with all its other work",
			got.CPU.Seconds())
		got.Tree.Notes = append(got.Tree.Notes, note)
	}
	_, release, err := s.acquireReading(ctx)
	if err != nil {
		return err
	}
	defer release()
	p, err := s.keep(got.Tree, body.name(q), "sample")
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, p.appendJSON(nil))
}
