package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
)

// Session is one login of a browser. Its role is that of the token now.
type Session struct {
	ID      string // 16 hexadecimal digits; no secret
	Token   string // name of the token; "": the server's own
	Browser string // such as "Firefox on Linux"
	From    string // address at the login; "": unknown
	Made    measure.Time
	Used    measure.Time // the newest request
	Ends    measure.Time // the earlier of its idle and its absolute end
}

// session is a Session with the hashes of its secrets.
type session struct {
	Session
	cookie sum // of the value of the cookie
	secret sum // of the secret of the page; the zero sum: none was issued
	token  sum // of the token

	// A login in the address of the page issues a code, which the page exchanges for the secret
	// once.
	code     sum // the zero sum: none, or it was used
	codeEnds time.Time
}

// sum is the SHA-256 of a secret.
type sum [sha256.Size]byte

func sumOf(secret string) sum { return sha256.Sum256([]byte(secret)) }

// equal compares in constant time. A zero sum equals nothing.
func (s sum) equal(secret string) bool {
	got := sumOf(secret)
	return s != sum{} && secret != "" && subtle.ConstantTimeCompare(s[:], got[:]) == 1
}

// Defaults and limits of sessions.
const (
	DefaultIdle = 12 * time.Hour
	DefaultMax  = 30 * 24 * time.Hour

	maxSessions  = 16 // per token; the one that was not used for the longest time ends
	codeLifetime = time.Minute
	saveEach     = time.Minute // of the time of the newest request
)

// Sessions are the sessions of a server, in memory and in a file. It is safe for concurrent use.
// Make it with OpenSessions.
type Sessions struct {
	path      string // "": in memory only
	idle, max time.Duration
	now       func() time.Time

	mu    sync.Mutex // guards the fields below
	all   map[sum]*session
	saved time.Time
	err   error // why the file could not be read or written; nil: it has all
}

// OpenSessions returns the sessions in a file; path "": none, and they are kept in memory. A
// session ends when it was not used for idle, and max after its login. If the file can't be read,
// there are no sessions, and Trouble says so.
func OpenSessions(path string, idle, max time.Duration) *Sessions {
	s := &Sessions{path: path, idle: idle, max: max, now: time.Now, all: map[sum]*session{}}
	if path == "" {
		return s
	}
	list, err := readSessions(path)
	s.err = err
	for _, one := range list {
		s.all[one.cookie] = one
	}
	return s
}

// Trouble returns the error of the file: why sessions could not be read or written; nil: the file
// has all.
func (s *Sessions) Trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// ends returns when a session ends if it is not used again.
func (s *Sessions) ends(one *session) time.Time {
	idle, end := one.Used.AsTime().Add(s.idle), one.Made.AsTime().Add(s.max)
	if idle.Before(end) {
		return idle
	}
	return end
}

// begin makes a session of a token, in place of the session replaced, if that is not nil. It
// returns the value of its cookie. The caller must hold no lock.
func (s *Sessions) begin(token string, of sum, from *http.Request, peer string, replaced *session,
) (one *session, cookie string) {
	cookie = randomSecret()
	now := measure.Time(s.now().UnixNano())
	one = &session{
		Session: Session{
			Token: token, Browser: browserOf(from.UserAgent()), From: peer, Made: now, Used: now,
		},
		cookie: sumOf(cookie), token: of,
	}
	one.ID = hex.EncodeToString(one.cookie[:8])
	s.mu.Lock()
	defer s.mu.Unlock()
	if replaced != nil {
		delete(s.all, replaced.cookie)
	}
	s.removeEnded()
	s.limit(token)
	s.all[one.cookie] = one
	s.save()
	return one, cookie
}

// removeEnded removes the sessions that have ended. The caller holds the lock.
func (s *Sessions) removeEnded() {
	now := s.now()
	for key, one := range s.all {
		if !now.Before(s.ends(one)) {
			delete(s.all, key)
		}
	}
}

// limit removes sessions of a token so that there is space for one more. The caller holds the lock.
func (s *Sessions) limit(token string) {
	var own []*session
	for _, one := range s.all {
		if one.Token == token {
			own = append(own, one)
		}
	}
	slices.SortFunc(own, func(a, b *session) int { return cmp.Compare(b.Used, a.Used) })
	for i := maxSessions - 1; i < len(own); i++ {
		delete(s.all, own[i].cookie)
	}
}

// issueCode returns a code that the page may exchange for the secret of the session.
func (s *Sessions) issueCode(one *session) string {
	code := randomSecret()
	s.mu.Lock()
	defer s.mu.Unlock()
	one.code, one.codeEnds = sumOf(code), s.now().Add(codeLifetime)
	return code
}

// exchange returns a new secret of the session for the code of its login, once. ok is false if the
// code is wrong, was used, or is too old.
func (s *Sessions) exchange(one *session, code string) (secret string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !one.code.equal(code) || !s.now().Before(one.codeEnds) {
		return "", false
	}
	one.code = sum{}
	return s.issue(one), true
}

// issueSecret returns a new secret of the session.
func (s *Sessions) issueSecret(one *session) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issue(one)
}

// issue returns a new secret of the session. The caller holds the lock.
func (s *Sessions) issue(one *session) string {
	secret := randomSecret()
	one.secret = sumOf(secret)
	s.save()
	return secret
}

// find returns the session of a cookie; nil: there is none, or it has ended. With used the request
// counts against its idle end.
func (s *Sessions) find(cookie string, used bool) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[sumOf(cookie)]
	now := s.now()
	if one == nil || !now.Before(s.ends(one)) {
		return nil
	}
	if used {
		one.Used = max(one.Used, measure.Time(now.UnixNano()))
		if now.Sub(s.saved) >= saveEach {
			s.save()
		}
	}
	return one
}

// lives reports whether a session has not ended.
func (s *Sessions) lives(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[one.cookie] == one && s.now().Before(s.ends(one))
}

// proves reports whether a text is the secret of the session.
func (s *Sessions) proves(one *session, secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.secret.equal(secret)
}

// List returns the sessions for which wanted reports true, newest first.
func (s *Sessions) List(wanted func(Session) bool) []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
	out := []Session{}
	for _, one := range s.all {
		one.Ends = measure.Time(s.ends(one).UnixNano())
		if wanted(one.Session) {
			out = append(out, one.Session)
		}
	}
	slices.SortFunc(out, func(a, b Session) int {
		return cmp.Or(cmp.Compare(b.Made, a.Made), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Revoke ends the sessions for which wanted reports true, and returns how many that were. The error
// says that the file can't be written: they end now, but a restart would bring them back.
func (s *Sessions) Revoke(wanted func(Session) bool) (count int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
	for key, one := range s.all {
		if wanted(one.Session) {
			delete(s.all, key)
			count++
		}
	}
	if count == 0 {
		return 0, nil
	}
	s.save()
	return count, s.err
}

// save writes the file. The caller holds the lock.
func (s *Sessions) save() {
	if s.path == "" {
		return
	}
	s.saved = s.now()
	list := make([]*session, 0, len(s.all))
	for _, one := range s.all {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.Made, b.Made), strings.Compare(a.ID, b.ID))
	})
	s.err = writeSessions(s.path, list)
}

// browserOf returns the browser and the system of a User-Agent header, such as "Firefox on Linux".
func browserOf(agent string) string {
	// Chrome's header contains Safari's name, and Edge's that of both.
	names := []struct{ mark, name string }{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chromium/", "Chromium"},
		{"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systems := []struct{ mark, name string }{
		{"Android", "Android"}, {"iPhone", "iOS"}, {"iPad", "iOS"}, {"Windows", "Windows"},
		{"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	}
	out := "a browser"
	for _, n := range names {
		if strings.Contains(agent, n.mark) {
			out = n.name
			break
		}
	}
	for _, n := range systems {
		if strings.Contains(agent, n.mark) {
			return out + " on " + n.name
		}
	}
	return out
}
