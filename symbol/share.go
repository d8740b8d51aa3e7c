package symbol

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/kernel/proc"
)

// A Files reads files of other users with a Reader, and limits the CPU time that each user's files
// take. It is shared by all Processes and Unwindings of a process. Safe for concurrent use.
type Files struct {
	reader Reader
	apart  bool          // the reader is another process
	limit  time.Duration // of a request
	wait   time.Duration // for a request; 0: until the reader fails
	share  int           // a user's files may take one part in share of the time; 0: no limit

	guard proc.Guard // of files of processes

	mu     sync.Mutex
	users  map[uint32]*allowance
	failed time.Time // when the reader failed last; zero: never
	// what the reader had answered when it failed
	answered uint64
	took     time.Duration
	now      func() time.Time
}

// An allowance is the CPU time that files of a user may still take.
type allowance struct {
	left   time.Duration
	at     time.Time // when left was computed
	waited time.Time // when a request was refused last
}

const (
	// ownLimit is the CPU time of a request in a tool, apartLimit in a server.
	ownLimit   = 2 * time.Second
	apartLimit = 500 * time.Millisecond
	// apartWait is how long a server waits for an answer. The names are known later then.
	apartWait = time.Second
	// A user's files take at most cpuAtFirst of CPU time plus one part in cpuShare of the time
	// that passes.
	cpuAtFirst = 2 * time.Second
	cpuShare   = 10
	// unansweredPause follows a request without an answer.
	unansweredPause = 2 * time.Second
	// failurePenalty is charged for a request that ended the reader.
	failurePenalty = time.Second
	// mostUsers is how many users are distinguished. The files of further ones share an allowance.
	mostUsers = 1 << 12
	// waitNoted is how long a note reports a user whose files waited.
	waitNoted = 10 * time.Second
)

// errWaits is the error of a request for files of a user whose CPU time is used up. It is
// ErrUnavailable.
var errWaits = fmt.Errorf("the files of its user took too long: %w", ErrUnavailable)

// NewFiles returns a Files whose reader is another process, for a server.
func NewFiles(apart Reader) *Files {
	f := NewToolFiles(apart)
	f.limit, f.wait, f.share = apartLimit, apartWait, cpuShare
	return f
}

// NewToolFiles returns a Files whose reader is another process, for a tool that runs for one
// caller: users have no limit of CPU time.
func NewToolFiles(apart Reader) *Files {
	return &Files{reader: apart, apart: true, limit: ownLimit, users: map[uint32]*allowance{},
		now: time.Now}
}

// ownFiles returns a Files that reads in this process, without a limit per user.
func ownFiles() *Files {
	return &Files{reader: &OwnReader{}, limit: ownLimit, users: map[uint32]*allowance{},
		now: time.Now}
}

// read answers a request for a file. payer is the user whose CPU time it is. The Answer is never
// nil.
func (f *Files) read(payer uint32, q *Request) (*Answer, error) {
	if !f.may(payer) {
		return &Answer{}, errWaits
	}
	if f.pauses() {
		return &Answer{}, ErrUnavailable
	}
	if q.Limit == 0 {
		q.Limit = f.limit
	}
	q.Wait = f.wait
	a, err := f.reader.Read(q)
	return f.account(payer, Result{a, err}), err
}

// readNow answers a request that somebody waits for: it waits until the reader has answered or
// failed, also when the CPU time of the user is used up. The Answer is never nil.
func (f *Files) readNow(payer uint32, q *Request) (*Answer, error) {
	q.Wait = 0
	a, err := f.reader.Read(q)
	return f.account(payer, Result{a, err}), err
}

// account charges a result to a user and returns its answer, which is not nil.
func (f *Files) account(payer uint32, r Result) *Answer {
	a := r.Answer
	if a == nil {
		a = &Answer{}
	}
	took := a.CPU
	if errors.Is(r.Err, ErrFailed) {
		took += failurePenalty
	}
	f.mu.Lock()
	if errors.Is(r.Err, ErrUnavailable) {
		f.failed, f.answered = f.now(), f.answers()
	}
	f.took += a.CPU
	f.mu.Unlock()
	f.charge(payer, took)
	return a
}

// Took returns the CPU time that another process has used so far to read files. f may be nil.
func (f *Files) Took() time.Duration {
	if f == nil || !f.apart {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.took
}

// pauses reports whether no request is made because the last one had no answer in time, and none
// came since. So a server waits for at most one request in unansweredPause. A reader that is only
// slow, since the machine is busy, is asked again when it has answered.
func (f *Files) pauses() bool {
	if f.wait == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed.IsZero() || f.now().Sub(f.failed) >= unansweredPause {
		return false
	}
	return f.answers() == f.answered
}

// answers returns how many requests the reader has answered; 0: it does not count.
func (f *Files) answers() uint64 {
	if r, ok := f.reader.(interface{ Answered() uint64 }); ok {
		return r.Answered()
	}
	return 0
}

// may reports whether files of a user may be read now.
func (f *Files) may(user uint32) bool {
	if f.share == 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.of(user)
	if one.left > 0 {
		return true
	}
	one.waited = one.at
	return false
}

func (f *Files) charge(user uint32, took time.Duration) {
	if f.share == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(user).left -= took
}

// of returns the allowance of a user at this moment.
func (f *Files) of(user uint32) *allowance {
	now := f.now()
	one := f.users[user]
	if one == nil && len(f.users) >= mostUsers {
		user = ^uint32(0) // which no user has
		one = f.users[user]
	}
	if one == nil {
		one = &allowance{left: cpuAtFirst, at: now}
		f.users[user] = one
	}
	one.left = min(cpuAtFirst, one.left+now.Sub(one.at)/time.Duration(f.share))
	one.at = now
	return one
}

// Notes returns which users' files are read late at this time, and that the reader has failed. f
// may be nil.
func (f *Files) Notes() []string {
	if f == nil {
		return nil
	}
	return f.notes()
}

func (f *Files) notes() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.failed.IsZero() && f.now().Sub(f.failed) < waitNoted {
		out = append(out, "some addresses have no names yet, and some stacks follow frame "+
			"pointers: the process that reads symbols did not answer")
	}
	var late []uint32
	for user, one := range f.users {
		if !one.waited.IsZero() && f.now().Sub(one.waited) < waitNoted {
			late = append(late, user)
		}
	}
	if len(late) == 0 {
		return out
	}
	slices.Sort(late)
	const most = 3
	names := make([]string, 0, most)
	for _, user := range late[:min(most, len(late))] {
		names = append(names, fmt.Sprint(user))
	}
	text := strings.Join(names, ", ")
	if len(late) > most {
		text += fmt.Sprintf(" and %d more", len(late)-most)
	}
	return append(out, fmt.Sprintf("some addresses have no names yet: files of user ID %s take "+
		"more than %d ms of CPU per second to read", text, 1000/f.share))
}

// payerOf returns the user whose CPU time and memory reading a file takes: the owner of the file,
// or, for files of root, the user of the process that maps it.
func payerOf(key fileKey, process uint32) uint32 {
	if key.owner != 0 {
		return key.owner
	}
	return process
}

// IsBounded reports whether a user may take only half of what all share. Root and the caller may
// take all.
func IsBounded(user uint32) bool { return user != 0 && int(user) != os.Geteuid() }
