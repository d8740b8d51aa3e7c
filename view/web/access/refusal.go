package access

import (
	"strings"
	"sync"
	"time"
)

// Refusal is a request that is refused: the HTTP status and what its reply contains.
type Refusal struct {
	Status     int
	Code       string        // a stable word for programs
	Message    string        // one clause
	Hint       string        // what to do instead; "": nothing useful to say
	RetryAfter time.Duration // 0: no time is named
}

// Error returns the message and the hint in one line.
func (r *Refusal) Error() string {
	if r.Hint != "" {
		return r.Message + " (" + r.Hint + ")"
	}
	return r.Message
}

// rateLimit allows wrongAtOnce calls at once and wrongPerSecond after that. Requests with the right
// token don't use it.
type rateLimit struct {
	mu   sync.Mutex
	left float64 // calls that are allowed now
	last time.Time
}

const (
	wrongAtOnce    = 20.0
	wrongPerSecond = 5.0
)

func (l *rateLimit) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		l.left = wrongAtOnce
	} else if d := now.Sub(l.last).Seconds(); d > 0 {
		l.left = min(wrongAtOnce, l.left+d*wrongPerSecond)
	}
	l.last = now
	if l.left < 1 {
		return false
	}
	l.left--
	return true
}

// Printable returns a text of a stranger, shortened, with '?' for bytes that are not safe to show.
func Printable(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}
