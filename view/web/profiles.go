package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
	p, err := s.add(packed, view.Clean(name), "file", measure.Interval{})
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
	if _, _, ok := parseRange(q.text("id")); ok {
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
