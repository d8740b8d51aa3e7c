package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/access"
	"culprit/view/web/api"
)

const (
	maxViewers  = 4096
	maxFeeds    = 512
	liveTop     = 200              // default number of rows of a live answer
	heartbeat   = 15 * time.Second // proxies close a silent connection, usually after a minute
	sendTimeout = 30 * time.Second // a viewer that takes nothing for so long is disconnected
	liveStep    = measure.Second
)

// live runs the queries of all viewers: at each tick each different query once, however many
// viewers it has. A slow viewer misses ticks and delays no other.
type live struct {
	*core
	viewers atomic.Int64
	guard   *access.Guard // nil until Server.Handler

	mu    sync.Mutex // guards feeds and their users
	feeds map[string]*feed

	cache  tickCache
	scores scores
}

// tickCache holds the answers of one tick.
type tickCache struct {
	sync.Mutex
	at      measure.Time
	answers map[string]*measure.Answer // by query; not to be changed
	errors  map[string]error           // by query
	texts   map[string][]byte          // JSON, by top, window and query
}

// startTick empties the cache if at is a newer tick. The caller holds the lock.
func (c *tickCache) startTick(at measure.Time) {
	if at > c.at || c.answers == nil {
		c.at, c.answers = at, map[string]*measure.Answer{}
		c.errors, c.texts = map[string]error{}, map[string][]byte{}
	}
}

// eventFunc returns the JSON of an event at a tick.
type eventFunc = func(ctx context.Context, at measure.Time) []byte

// feed holds the newest event of a live view for all its viewers.
type feed struct {
	key   string // equal for the same view
	name  string // of its events
	event eventFunc
	users int

	mu     sync.Mutex // guards the fields below
	newest *event     // nil before the first
	next   chan struct{}
}

// event is a Server-Sent Event. Its slices are shared and must not be changed.
type event struct {
	at   measure.Time
	text []byte // as it is sent
	data []byte // the JSON in it
}

func newFeed(key, name string, f eventFunc) *feed {
	return &feed{key: key, name: name, event: f, next: make(chan struct{})}
}

func newLive(c *core) *live {
	return &live{core: c, feeds: map[string]*feed{}}
}

// run makes the events of each tick until the server or the recording ends. While it works, a tick
// may be skipped in favour of a newer one.
func (l *live) run() {
	for {
		at, err := l.Machine.Tick(l.ended, measure.Time(l.clock.newest.Load()))
		if err != nil {
			l.end() // the recording has ended
			return
		}
		l.clock.first.CompareAndSwap(0, int64(at))
		l.clock.newest.Store(int64(at))
		l.clock.arrived.Store(time.Now().UnixNano())
		l.mu.Lock()
		feeds := make([]*feed, 0, len(l.feeds))
		for _, f := range l.feeds {
			feeds = append(feeds, f)
		}
		l.mu.Unlock()
		if len(feeds) == 0 {
			continue
		}
		l.metered(func() {
			for _, f := range feeds {
				l.makeEvent(l.ended, f, at)
			}
		})
	}
}

// makeEvent makes the event of a tick. A panic ends neither the other feeds nor the recording.
func (l *live) makeEvent(ctx context.Context, f *feed, at measure.Time) {
	defer func() {
		if p := recover(); p != nil {
			_ = l.recovered("making a live view", p) // counted
		}
	}()
	if data := f.event(ctx, at); ctx.Err() == nil {
		f.publish(at, data)
	}
}

// publish makes data the newest event and wakes the viewers, unless there is a newer event.
func (f *feed) publish(at measure.Time, data []byte) {
	head := "event: " + f.name + "\ndata: "
	text := make([]byte, 0, len(head)+len(data)+2)
	text = append(append(append(text, head...), data...), "\n\n"...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newest != nil && f.newest.at >= at {
		return
	}
	end := len(head) + len(data)
	f.newest = &event{at, text, text[len(head):end:end]}
	close(f.next)
	f.next = make(chan struct{})
}

// newestEvent returns the newest event, nil before the first, and a channel that is closed at the
// next one.
func (f *feed) newestEvent() (*event, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest, f.next
}

// join returns the feed with the key and makes it if there is none. The viewer must call leave.
func (l *live) join(key, name string, f eventFunc) (*feed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	joined := l.feeds[key]
	if joined == nil {
		if len(l.feeds) >= maxFeeds {
			return nil, busy("too many different live views are open", "")
		}
		joined = newFeed(key, name, f)
		l.feeds[key] = joined
	}
	joined.users++
	return joined, nil
}

func (l *live) leave(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.users--; f.users == 0 && l.feeds[f.key] == f {
		delete(l.feeds, f.key)
	}
}

// answer runs a query for one tick, once for all feeds. text is the query's.
func (l *live) answer(
	ctx context.Context, q measure.Query, text string, at measure.Time,
) (*measure.Answer, error) {
	c := &l.cache
	c.Lock()
	c.startTick(at)
	a, err := c.answers[text], c.errors[text]
	c.Unlock()
	if a != nil || err != nil {
		return a, err
	}
	q.Over, q.Step = measure.Interval{Start: at.Add(-liveStep), End: at}, liveStep
	a, err = l.Machine.Ask(ctx, q)
	l.count(err)
	c.Lock()
	defer c.Unlock()
	if c.at == at && ctx.Err() == nil {
		c.answers[text], c.errors[text] = a, err
	}
	return a, err
}

// answerJSON returns the JSON of an answer of one tick, made once for all feeds. On an error it
// returns the JSON of the error. Rows that differ from the others over the window are sent before
// larger ones; if window is 0, rows are not compared.
func (l *live) answerJSON(
	ctx context.Context, q measure.Query, text string, top int, window measure.Span,
	at measure.Time,
) []byte {
	key := strconv.Itoa(top) + " " + strconv.FormatInt(int64(window), 10) + " " + text
	c := &l.cache
	c.Lock()
	c.startTick(at)
	b := c.texts[key]
	c.Unlock()
	if b != nil {
		return b
	}
	a, err := l.answer(ctx, q, text, at)
	if err == nil {
		var differ *deviants
		var news bool
		if window > 0 && len(q.By) > 0 {
			differ, news = l.deviants(q, text, window, at)
		}
		var s *shaped
		if s, err = shape(a, l.stat(q.Stat), top, differ.find(a)); err == nil {
			s.unlike = nil // sent when they change, not with each row
			b = s.appendJSON(nil)
		}
		if err == nil && differ != nil {
			b = append(differ.appendJSON(b[:len(b)-1], news), '}')
		}
	}
	if err != nil {
		b = view.AppendString([]byte(`{"query":`), text)
		b = append(faultOf(err).appendJSON(append(b, `,"error":`...)), '}')
	}
	c.Lock()
	defer c.Unlock()
	if c.at == at && ctx.Err() == nil {
		c.texts[key] = b
	}
	return b
}

// answers streams the answers of some queries, an event per tick.
func (l *live) answers(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, 0, []string{"top", "window"}, []string{"q"})
	if err != nil {
		return err
	}
	top, err := p.count("top", maxTop)
	if err != nil {
		return err
	}
	if top == 0 {
		top = liveTop
	}
	window, err := p.span("window", 0)
	if err != nil {
		return err
	}
	texts := p.values["q"]
	if len(texts) == 0 || len(texts) > maxLiveQueries {
		return badRequest("a live view has 1 to %d queries (q), not %d", maxLiveQueries, len(texts))
	}
	queries, normal := make([]measure.Query, len(texts)), make([]string, len(texts))
	for i, text := range texts {
		if queries[i], err = l.parseQuery(text); err != nil {
			return err
		}
		normal[i] = queries[i].String()
	}
	key := fmt.Sprint("answers ", top, " ", int64(window), " ", strings.Join(normal, "\n"))
	return l.stream(w, r, key, "tick", func(ctx context.Context, at measure.Time) []byte {
		b := api.AppendMillis([]byte(`{"at_ms":`), int64(at))
		b = append(b, `,"answers":[`...)
		for i := range queries {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, l.answerJSON(ctx, queries[i], normal[i], top, window, at)...)
		}
		return append(b, "]}"...)
	})
}

// stream sends the events of the feed with the key, which f makes.
func (l *live) stream(
	w http.ResponseWriter, r *http.Request, key, name string, f eventFunc,
) error {
	joined, err := l.join(key, name, f)
	if err != nil {
		return err
	}
	defer l.leave(joined)
	if e, _ := joined.newestEvent(); e == nil {
		// The first viewer does not wait for the next tick.
		if at := measure.Time(l.clock.newest.Load()); at != 0 {
			ctx, release, err := l.acquire(r.Context())
			if err != nil {
				return err
			}
			l.metered(func() { l.makeEvent(ctx, joined, at) })
			err = ctx.Err()
			release()
			if err != nil {
				return err
			}
		}
	}
	return l.follow(w, r, joined, liveStep)
}

// follow sends the events of a feed until the viewer leaves or the server ends. If step is not 0,
// events are expected one step apart, and a longer time between two is reported as a gap.
func (l *live) follow(
	w http.ResponseWriter, r *http.Request, f *feed, step measure.Span,
) error {
	defer l.viewers.Add(-1)
	if l.viewers.Add(1) > maxViewers {
		return busy("too many viewers", "")
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // or nginx would delay events
	v := viewer{live: l, w: w, control: http.NewResponseController(w)}
	// Only connections of tests have no deadlines, and they need none.
	_ = v.control.SetReadDeadline(time.Time{})
	if r.Method == http.MethodHead || !v.send([]byte("retry: 2000\n\n")) {
		return nil
	}
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	var last measure.Time
	admitted := l.admission(r.Context())
	for {
		if !admitted() {
			return nil
		}
		e, next := f.newestEvent()
		if e != nil && e.at > last {
			if last != 0 && step > 0 && e.at.Sub(last) > step+step/2 {
				if !v.sendGap(last, e.at.Add(-step)) {
					return nil
				}
			}
			if !v.send(e.text) {
				return nil
			}
			last = e.at
			beat.Reset(heartbeat)
			continue
		}
		select {
		case <-next:
		case <-beat.C:
			if !v.send([]byte(": \n\n")) {
				return nil
			}
			beat.Reset(heartbeat)
		case <-r.Context().Done():
			return nil
		case <-l.ended.Done():
			return nil
		}
	}
}

// viewer is the connection of one viewer.
type viewer struct {
	live    *live
	w       http.ResponseWriter
	control *http.ResponseController
}

// send sends b. ok is false if the viewer is gone or too slow.
func (v *viewer) send(b []byte) (ok bool) {
	v.live.metered(func() {
		_ = v.control.SetWriteDeadline(time.Now().Add(sendTimeout)) // see follow
		_, err := v.w.Write(b)
		ok = err == nil && v.control.Flush() == nil
	})
	return ok
}

// sendGap reports that the events of a time range are missing.
func (v *viewer) sendGap(from, to measure.Time) (ok bool) {
	b := api.AppendMillis([]byte("event: gap\ndata: {\"from_ms\":"), int64(from))
	b = api.AppendMillis(append(b, `,"to_ms":`...), int64(to))
	return v.send(append(b, ",\"reason\":\"this viewer or the server was too slow\"}\n\n"...))
}
