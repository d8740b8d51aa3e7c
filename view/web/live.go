package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

const (
	mostViewers = 4096
	mostFeeds   = 512
	liveTop     = 200              // rows of a live answer when nothing else is asked for: more than a graph shows
	heartbeat   = 15 * time.Second // a proxy cuts what is silent for longer, usually after a minute
	takeTime    = 30 * time.Second // a viewer who takes nothing for so long is gone
	liveStep    = measure.Second
)

// hub asks for all viewers at once: each tick every different question once, however many look at it. A viewer who is slow
// misses ticks; nobody waits for anybody.
type hub struct {
	server *Server
	first  atomic.Int64 // the first tick that was seen
	newest atomic.Int64 // the newest

	mu    sync.Mutex // guards feeds and their users
	feeds map[string]*feed

	cache struct {
		sync.Mutex
		at      measure.Time
		answers map[string]*measure.Answer // by sentence; not to be changed
		errors  map[string]error
		texts   map[string][]byte // by top and sentence
	}
}

// feed is what all viewers of one question see: its newest event.
type feed struct {
	key   string
	name  string                                            // of its events
	make  func(ctx context.Context, at measure.Time) []byte // the JSON of the event at a tick
	users int

	mu    sync.Mutex // guards what follows
	last  *event
	fresh chan struct{} // closed when last is another
}

// event is a Server-Sent Event of a moment. Its slices are shared and not changed.
type event struct {
	at   measure.Time
	text []byte // as it is sent
	data []byte // the JSON in it
}

func newFeed(key, name string, text func(context.Context, measure.Time) []byte) *feed {
	return &feed{key: key, name: name, make: text, fresh: make(chan struct{})}
}

func newHub(s *Server) *hub {
	return &hub{server: s, feeds: map[string]*feed{}}
}

// follow makes the events of each tick until the server ends. A tick that comes while the one before is worked on is told late, or not at all when
// there is a newer one by then.
func (h *hub) follow() {
	ctx := h.server.ended
	for {
		at, err := h.server.Machine.Tick(ctx, measure.Time(h.newest.Load()))
		if err != nil {
			h.server.stop() // the recording has ended
			return
		}
		h.first.CompareAndSwap(0, int64(at))
		h.newest.Store(int64(at))
		h.mu.Lock()
		feeds := make([]*feed, 0, len(h.feeds))
		for _, f := range h.feeds {
			feeds = append(feeds, f)
		}
		h.mu.Unlock()
		if len(feeds) == 0 {
			continue
		}
		h.server.metered(func() {
			for _, f := range feeds {
				h.make(ctx, f, at)
			}
		})
	}
}

// make tells a feed its event of a tick. A fault of ours in it ends neither the other feeds nor the recording.
func (h *hub) make(ctx context.Context, f *feed, at measure.Time) {
	defer func() {
		if p := recover(); p != nil {
			h.server.broke("making a live view", p)
		}
	}()
	if data := f.make(ctx, at); ctx.Err() == nil {
		f.tell(at, data)
	}
}

// tell makes an event the newest, unless there is a newer one.
func (f *feed) tell(at measure.Time, data []byte) {
	head := "event: " + f.name + "\ndata: "
	text := make([]byte, 0, len(head)+len(data)+2)
	text = append(append(append(text, head...), data...), "\n\n"...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && f.last.at >= at {
		return
	}
	f.last = &event{at, text, text[len(head) : len(head)+len(data) : len(head)+len(data)]}
	close(f.fresh)
	f.fresh = make(chan struct{})
}

// newestEvent gives the newest event, nil before the first, and what is closed when there is another.
func (f *feed) newestEvent() (*event, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.fresh
}

// join gives the feed of a key to a viewer, who leaves it at the end.
func (h *hub) join(key, name string, text func(context.Context, measure.Time) []byte) (*feed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[key]
	if f == nil {
		if len(h.feeds) >= mostFeeds {
			return nil, &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: "too many different live views are open"}
		}
		f = newFeed(key, name, text)
		h.feeds[key] = f
	}
	f.users++
	return f, nil
}

func (h *hub) leave(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.users--; f.users == 0 && h.feeds[f.key] == f {
		delete(h.feeds, f.key)
	}
}

// answer asks for one tick, once for all feeds.
func (h *hub) answer(ctx context.Context, q measure.Query, sentence string, at measure.Time) (*measure.Answer, error) {
	c := &h.cache
	c.Lock()
	h.turn(at)
	a, err := c.answers[sentence], c.errors[sentence]
	c.Unlock()
	if a != nil || err != nil {
		return a, err
	}
	q.Over, q.Step = measure.Interval{Start: at.Add(-liveStep), End: at}, liveStep
	a, err = h.server.Machine.Ask(ctx, q)
	h.server.count(err)
	c.Lock()
	defer c.Unlock()
	if c.at == at && ctx.Err() == nil {
		c.answers[sentence], c.errors[sentence] = a, err
	}
	return a, err
}

// turn empties the cache for a new tick. The cache is locked.
func (h *hub) turn(at measure.Time) {
	if c := &h.cache; at > c.at || c.answers == nil {
		c.at, c.answers, c.errors, c.texts = at, map[string]*measure.Answer{}, map[string]error{}, map[string][]byte{}
	}
}

// text gives the JSON of an answer of one tick, made once for all feeds. One that can't be had says why.
func (h *hub) text(ctx context.Context, q measure.Query, sentence string, top int, at measure.Time) []byte {
	key := strconv.Itoa(top) + " " + sentence
	c := &h.cache
	c.Lock()
	h.turn(at)
	b := c.texts[key]
	c.Unlock()
	if b != nil {
		return b
	}
	a, err := h.answer(ctx, q, sentence, at)
	if err == nil {
		var s *shaped
		if s, err = shape(a, h.server.stat(q.Stat), top); err == nil {
			b = s.appendJSON(nil)
		}
	}
	if err != nil {
		b = view.AppendString([]byte(`{"query":`), sentence)
		b = append(faultOf(err).appendJSON(append(b, `,"error":`...)), '}')
	}
	c.Lock()
	defer c.Unlock()
	if c.at == at && ctx.Err() == nil {
		c.texts[key] = b
	}
	return b
}

// liveAnswers streams answers, each tick.
func (s *Server) liveAnswers(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, 0, []string{"top"}, []string{"q"})
	if err != nil {
		return err
	}
	top, err := p.count("top", mostTop)
	if err != nil {
		return err
	}
	if top == 0 {
		top = liveTop
	}
	asked := p.values["q"]
	if len(asked) == 0 || len(asked) > mostQueries {
		return badf("a live view has 1 to %d sentences (q), here are %d", mostQueries, len(asked))
	}
	queries, sentences := make([]measure.Query, len(asked)), make([]string, len(asked))
	for i, text := range asked {
		if queries[i], err = s.query(text); err != nil {
			return err
		}
		sentences[i] = queries[i].String()
	}
	return s.stream(w, r, "answers "+strconv.Itoa(top)+" "+strings.Join(sentences, "\n"), "tick", func(ctx context.Context, at measure.Time) []byte {
		b := api.AppendMillis([]byte(`{"at_ms":`), int64(at))
		b = append(b, `,"answers":[`...)
		for i := range queries {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, s.live.text(ctx, queries[i], sentences[i], top, at)...)
		}
		return append(b, "]}"...)
	})
}

// stream sends the events of a feed that is made once for all who look at the same.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, key, name string, text func(context.Context, measure.Time) []byte) error {
	f, err := s.live.join(key, name, text)
	if err != nil {
		return err
	}
	defer s.live.leave(f)
	if e, _ := f.newestEvent(); e == nil {
		if at := measure.Time(s.live.newest.Load()); at != 0 { // the first to look: not to wait for the next tick
			ctx, done, err := s.place(r.Context())
			if err != nil {
				return err
			}
			s.metered(func() { s.live.make(ctx, f, at) })
			err = ctx.Err()
			done()
			if err != nil {
				return err
			}
		}
	}
	return s.follow(w, r, f, liveStep)
}

// follow sends the events of a feed until the viewer or the server ends. A viewer who could not take them as fast as they came is told of the
// gap; every is the time from one event to the next, 0 when there is no such time.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, f *feed, every measure.Span) error {
	defer s.viewers.Add(-1)
	if s.viewers.Add(1) > mostViewers {
		return &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: "too many viewers"}
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would gather events
	c := http.NewResponseController(w)
	put := func(b []byte) (ok bool) {
		s.metered(func() {
			// A connection without deadlines is one of a test: it needs none.
			_ = c.SetWriteDeadline(time.Now().Add(takeTime))
			_, err := w.Write(b)
			ok = err == nil && c.Flush() == nil
		})
		return ok
	}
	_ = c.SetReadDeadline(time.Time{}) // as above; the request is read
	if r.Method == http.MethodHead || !put([]byte("retry: 2000\n\n")) {
		return nil
	}
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	var last measure.Time
	for {
		e, fresh := f.newestEvent()
		if e != nil && e.at > last {
			if last != 0 && every > 0 && e.at.Sub(last) > every+every/2 {
				b := api.AppendMillis([]byte("event: gap\ndata: {\"from_ms\":"), int64(last))
				b = api.AppendMillis(append(b, `,"to_ms":`...), int64(e.at.Add(-every)))
				if !put(append(b, ",\"reason\":\"this viewer or the server was too slow\"}\n\n"...)) {
					return nil
				}
			}
			if !put(e.text) {
				return nil
			}
			last = e.at
			beat.Reset(heartbeat)
			continue
		}
		select {
		case <-fresh:
		case <-beat.C:
			if !put([]byte(": \n\n")) {
				return nil
			}
			beat.Reset(heartbeat)
		case <-r.Context().Done():
			return nil
		case <-s.ended.Done():
			return nil
		}
	}
}
