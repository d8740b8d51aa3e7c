package symbol

import (
	"errors"
	"os"
	"slices"
	"time"
)

// Another process may be slow to answer, or never answer. So the lock of a Processes is never held
// while it is asked, and all that a call needs is asked together:
//
//	lock    what is missing?  nothing: the call is over
//	unlock  ask for all of it
//	lock    store the answers, and begin again
//
// A call that names 300 addresses of 40 new files asks twice: for 40 headers, then for the names.

// A query is a request of a call.
type query struct {
	payer  uint32
	q      *Request
	done   func(a *Answer, err error) // stores the answer, under the lock; a is not nil
	opened []*os.File                 // closed after done
	memory int                        // process whose memory is read; 0: none
	answer *Answer
	err    error
}

// A conversation is what one call asks of another process.
type conversation struct {
	asked map[any]bool         // keys of all queries so far
	open  []*query             // not asked yet
	text  int                  // bytes of code in open
	files map[fileKey]*os.File // for the next round: their process may end meanwhile
	began time.Time            // when it asked first; zero: it asked nothing yet
	until time.Time            // when it waits no longer
}

const (
	// mostRounds is how often a call asks: for headers, names, generated code.
	mostRounds = 8
	// mostTogether is how many requests are sent together.
	mostTogether = 32
	// mostTalkText is how many bytes of code are sent in a round.
	mostTalkText = 4 << 20
	// mostOpenFiles is how many files a call keeps open between its rounds.
	mostOpenFiles = 256
)

// run calls f, with the lock held, until f asks for nothing that was not asked before.
func (ps *Processes) run(f func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.files.apart {
		f()
		return
	}
	c := &conversation{}
	defer c.close()
	for range mostRounds {
		ps.talk = c
		f()
		ps.talk = nil
		if len(c.open) == 0 {
			return
		}
		all := c.open
		c.open, c.text = nil, 0
		ps.unlocked(func() { ps.files.readAll(all, c) })
		for _, one := range all {
			ps.away.Add(int64(one.answer.CPU))
			one.done(one.answer, one.err)
			closeAll(one.opened)
		}
	}
}

// unlocked calls f without the lock, which the caller holds.
func (ps *Processes) unlocked(f func()) {
	ps.mu.Unlock()
	defer ps.mu.Lock()
	f()
}

// close closes the files of a call, and those of queries that were not asked.
func (c *conversation) close() {
	for _, one := range c.open {
		closeAll(one.opened)
	}
	for _, file := range c.files {
		file.Close() //nolint:errcheck // it was read from
	}
}

// keep keeps a file open until the end of the call; false: it does not.
func (c *conversation) keep(key fileKey, f *os.File) bool {
	if c == nil || len(c.files) >= mostOpenFiles || c.files[key] != nil {
		return false
	}
	if c.files == nil {
		c.files = map[fileKey]*os.File{}
	}
	c.files[key] = f
	return true
}

// has reports whether a call has asked a query. c may be nil.
func (c *conversation) has(key any) bool { return c != nil && c.asked[key] }

// pending returns how many queries were not asked yet. c may be nil.
func (c *conversation) pending() int {
	if c == nil {
		return 0
	}
	return len(c.open)
}

// ask has a request answered: at once if this process reads files, else when the function that run
// calls has returned. Each key is asked once in a call. The query's opened files are closed after
// it was answered, or when it is not asked.
func (ps *Processes) ask(key any, one *query) {
	if !ps.files.apart && one.memory != 0 {
		ps.readMemory(one)
		return
	}
	if !ps.files.apart {
		one.done(ps.files.read(one.payer, one.q))
	} else if !ps.talk.has(key) {
		if ps.talk.asked == nil {
			ps.talk.asked = map[any]bool{}
		}
		ps.talk.asked[key] = true
		ps.talk.open = append(ps.talk.open, one)
		return
	}
	closeAll(one.opened)
}

// readMemory answers a query that reads the memory of a process.
func (ps *Processes) readMemory(one *query) {
	a, err := guarded(ps, one.memory, func() (*Answer, error) {
		defer closeAll(one.opened)
		return ps.files.read(one.payer, one.q)
	}, nil)
	if a == nil {
		a = &Answer{}
	}
	one.done(a, err)
}

// readAll answers the queries of a call, mostTogether at a time, and takes them from users in
// turns. Those without an answer have ErrUnavailable.
func (f *Files) readAll(all []*query, c *conversation) {
	for _, one := range all {
		one.answer, one.err = &Answer{}, ErrUnavailable
	}
	if f.pauses() {
		return
	}
	if now := f.now(); c.began.IsZero() {
		c.began, c.until = now, now.Add(f.wait)
	} else { // the reader has answered before
		c.until = c.began.Add(2 * f.wait)
	}
	for rest := inTurns(all); len(rest) > 0; {
		var some []*query
		for len(rest) > 0 && len(some) < mostTogether {
			if f.may(rest[0].payer) {
				some = append(some, rest[0])
			} else {
				rest[0].err = errWaits
			}
			rest = rest[1:]
		}
		wait := time.Duration(0)
		if f.wait > 0 {
			if wait = c.until.Sub(f.now()); wait <= 0 {
				return
			}
		}
		if !f.together(some, wait) {
			return
		}
	}
}

// together answers some queries; false: the reader failed.
func (f *Files) together(some []*query, wait time.Duration) bool {
	requests := make([]*Request, len(some))
	for i, one := range some {
		requests[i] = one.q
		if one.q.Limit == 0 {
			one.q.Limit = f.limit
		}
		if one.q.Wait = wait; wait > 0 {
			one.q.Until = Monotonic() + wait
		}
	}
	ok := true
	for i, r := range f.reader.ReadAll(requests) {
		some[i].answer, some[i].err = f.account(some[i].payer, r), r.Err
		ok = ok && !errors.Is(r.Err, ErrUnavailable)
	}
	return ok
}

// inTurns returns queries in an order in which each user has one in turn, so that the files of one
// user do not delay those of all others.
func inTurns(all []*query) []*query {
	turn := make(map[*query]int, len(all))
	of := map[uint32]int{}
	for _, one := range all {
		turn[one] = of[one.payer]
		of[one.payer]++
	}
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b *query) int { return turn[a] - turn[b] })
	return out
}
