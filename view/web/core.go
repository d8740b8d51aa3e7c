package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"culprit/measure"
)

// core is what all parts of the API use: configuration, replies, limits and counters.
type core struct {
	*Config
	replies
	clock
	queryLimit
	meter
	faults

	ended context.Context // is canceled when the server or the recording ends
	end   context.CancelFunc
}

func newCore(config *Config) *core {
	c := &core{Config: config}
	c.ended, c.end = context.WithCancel(context.Background())
	c.queryLimit = queryLimit{config: config, slots: make(chan struct{}, maxRunningQueries),
		trusted: make(chan struct{}, maxTrustedQueries)}
	c.meter.config = config
	c.gzipWriters.New = func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // never fails for this level
		return z
	}
	return c
}

// parseQuery parses and checks the text of a query. The error is a *fault or a
// *measure.Diagnostic.
func (c *core) parseQuery(text string) (measure.Query, error) {
	if len(text) > maxText {
		return measure.Query{}, badRequest("a query of %d bytes is too long: at most %d",
			len(text), maxText)
	}
	if text == "" {
		f := badRequest("there is no query")
		f.Hint = "q=cpu.time by mode"
		return measure.Query{}, f
	}
	return c.Machine.Parse(text)
}

// stat returns the description of a statistic; nil if it is unknown.
func (c *core) stat(id measure.StatID) *measure.Stat {
	all := c.Machine.Stats()
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	for _, d := range c.Machine.Datasets() { // recorded earlier, no longer measured
		if d.Stat.ID == id {
			return &d.Stat
		}
	}
	return nil
}

// clock holds the times of the first and the newest tick in nanoseconds, and when the newest
// arrived; 0 before the first.
type clock struct {
	first   atomic.Int64
	newest  atomic.Int64
	arrived atomic.Int64
}

// now returns the time of the newest tick, or the current time before the first.
func (c *clock) now() measure.Time {
	if t := measure.Time(c.newest.Load()); t != 0 {
		return t
	}
	return measure.Time(time.Now().UnixNano())
}

// Limits of queries. An answer may take 256 MB while it is computed: two of them fit a small
// machine. One more slot is of trusted listeners alone, so that no token can keep root's tools
// waiting.
const (
	maxRunningQueries = 2 // more wait, for at most slotWait
	maxTrustedQueries = 1
	slotWait          = 15 * time.Second
	queryTimeout      = 30 * time.Second
)

// queryLimit bounds how many queries run at the same time.
type queryLimit struct {
	config  *Config
	slots   chan struct{} // holds one value per running query
	trusted chan struct{} // and one per query in the slot of trusted listeners
}

// acquire waits for a slot and calls Config.QueryStarted. The context ends after queryTimeout. The
// caller must call release at the end. The error says that the server is busy, or is the context's.
func (l *queryLimit) acquire(
	ctx context.Context,
) (limited context.Context, release func(), err error) {
	slot, err := takeSlot(ctx, l.slots, l.trusted)
	if err != nil {
		return nil, nil, err
	}
	if slot == nil {
		return nil, nil, busy("too many queries are running", "repeat it in a moment")
	}
	if l.config.QueryStarted != nil {
		l.config.QueryStarted()
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	return ctx, func() {
		cancel()
		<-slot
	}, nil
}

// takeSlot puts a value into a channel: slots, or for a trusted caller also trusted. It waits for
// slotWait. The caller must take it out. nil: there was no space. The error is the context's.
func takeSlot(ctx context.Context, slots, trusted chan struct{}) (chan struct{}, error) {
	if !isTrusted(ctx) {
		trusted = nil // never ready
	}
	wait := time.NewTimer(slotWait)
	defer wait.Stop()
	select {
	case slots <- struct{}{}:
		return slots, nil
	case trusted <- struct{}{}:
		return trusted, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
		return nil, nil
	}
}

// RunningQueries returns how many queries run now.
func (l *queryLimit) RunningQueries() int { return len(l.slots) + len(l.trusted) }

// meter counts the CPU time of replies and live events.
type meter struct {
	config *Config
	spent  atomic.Int64 // nanoseconds
}

// Spent returns the CPU time of all replies and live events, without that of reading requests. It
// is 0 if Config.CPU is nil.
func (m *meter) Spent() measure.Span { return measure.Span(m.spent.Load()) }

// metered runs f and adds its CPU time to Spent, also if f panics.
func (m *meter) metered(f func()) {
	if m.config.CPU == nil {
		f()
		return
	}
	runtime.LockOSThread()
	before := m.config.CPU()
	defer func() {
		m.spent.Add(int64(m.config.CPU() - before))
		runtime.UnlockOSThread()
	}()
	f()
}

// faults counts panics that ended one request or one live event and nothing else.
type faults struct {
	newest atomic.Pointer[string] // nil: none yet
	total  atomic.Uint64
}

// recovered counts a panic, keeps its text for /api/health and returns it as an error. The
// function that recovered calls it.
func (f *faults) recovered(doing string, panicked any) error {
	err := measure.Recovered(doing, panicked)
	f.count(err)
	return err
}

// count counts err if it is a *measure.Fault, a bug of culprit, and keeps its text.
func (f *faults) count(err error) {
	var bug *measure.Fault
	if errors.As(err, &bug) {
		text := bug.Error()
		f.total.Add(1)
		f.newest.Store(&text)
	}
}

// minGzip is the shortest reply in bytes for which gzip saves more than it costs.
const minGzip = 1400

// replies writes replies, compressed if the client accepts it.
type replies struct{ gzipWriters sync.Pool }

// send writes a reply of a media type. Caches must not store it.
func (p *replies) send(w http.ResponseWriter, r *http.Request, kind string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Accept-Encoding")
	if len(body) >= minGzip && accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		packed, err := p.gzip(body)
		if err == nil && len(packed) < len(body) {
			h.Set("Content-Encoding", "gzip")
			body = packed
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // fails only if the client is gone
	return nil
}

func (p *replies) sendJSON(w http.ResponseWriter, r *http.Request, body []byte) error {
	return p.send(w, r, "application/json", append(body, '\n'))
}

// gzip returns b compressed.
func (p *replies) gzip(b []byte) ([]byte, error) {
	z := p.gzipWriters.Get().(*gzip.Writer)
	defer p.gzipWriters.Put(z)
	var packed bytes.Buffer
	z.Reset(&packed)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// accepts reports whether the list in a header contains a word, and not with q=0.
func accepts(list, word string) bool {
	for _, item := range strings.Split(list, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(name), word) {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		v, err := strconv.ParseFloat(q, 64)
		return !(found && err == nil && v == 0)
	}
	return false
}
