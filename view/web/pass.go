package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"culprit/measure"
)

// Role is what somebody who is let in may do: what those before it may, and more.
type Role uint8

const (
	Looks   Role = iota + 1 // looks at what is recorded, and asks
	Records                 // changes what is recorded: datasets; brings profiles
	Traces                  // runs D programs, samples the machine
)

// String gives the word for it: view, record, trace.
func (r Role) String() string {
	if r < Looks || r > Traces {
		return "nothing"
	}
	return Roles()[r-1]
}

// Roles lists the words, least first.
func Roles() []string { return []string{"view", "record", "trace"} }

// RoleOf gives the role of a word.
func RoleOf(word string) (Role, error) {
	if i := slices.Index(Roles(), word); i >= 0 {
		return Role(i + 1), nil
	}
	hint := "it may " + strings.Join(Roles(), ", ")
	if near := measure.Nearest(word, Roles()); near != "" {
		hint = "did you mean " + near + "?"
	}
	return 0, fmt.Errorf("nobody may %q: %s", word, hint)
}

// Pass lets somebody in, beside who has the server's own token, to do less than everything, or for a time.
type Pass struct {
	Name  string
	May   Role
	Made  measure.Time
	Until measure.Time // 0: for ever
	sum   [sha256.Size]byte
}

// Over says whether its time is over.
func (p *Pass) Over(now time.Time) bool {
	return p.Until != 0 && measure.Time(now.UnixNano()) >= p.Until
}

// mostPasses bounds the file, so that a look at it stays cheap; longestName bounds a name in it.
const (
	mostPasses  = 1000
	longestName = 64
)

// CheckName says whether a pass may be called so: letters, digits and . _ - @, since the name stands in the audit and on command lines.
func CheckName(name string) error {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r)) {
			return fmt.Errorf("the name %q has %q: letters, digits and . _ - @ may be in it", name, r)
		}
	}
	if name == "" || len(name) > longestName {
		return fmt.Errorf("a name has 1 to %d characters", longestName)
	}
	return nil
}

// written is a pass in the file: of its token only the SHA-256, so that who reads the file is not let in.
type written struct {
	Name    string `json:"name"`
	May     string `json:"may"`
	Sum     string `json:"sha256"`
	MadeMS  int64  `json:"made_ms"`
	UntilMS int64  `json:"until_ms,omitempty"`
}

// ReadPasses gives the passes in a file, none when there is no file. It refuses one that others may write.
func ReadPasses(path string) ([]Pass, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read who is let in: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read who is let in: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("read who is let in: others may write %s: chmod 600", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read who is let in: %w", err)
	}
	all, err := parsePasses(b)
	if err != nil {
		return nil, fmt.Errorf("read who is let in: %s: %w", path, err)
	}
	return all, nil
}

func parsePasses(b []byte) ([]Pass, error) {
	var list []written
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(list) > mostPasses {
		return nil, fmt.Errorf("%d tokens, more than %d", len(list), mostPasses)
	}
	var all []Pass
	for i, w := range list {
		p := Pass{Name: w.Name, Made: measure.Time(w.MadeMS) * 1e6, Until: measure.Time(w.UntilMS) * 1e6}
		var err error
		if p.May, err = RoleOf(w.May); err == nil {
			err = CheckName(w.Name)
		}
		if n, wrong := hex.Decode(p.sum[:min(len(p.sum), len(w.Sum)/2)], []byte(w.Sum[:min(len(w.Sum), 2*len(p.sum))])); err == nil && (wrong != nil || n != len(p.sum) || len(w.Sum) != 2*n) {
			err = errors.New("sha256 has not 64 hexadecimal digits")
		}
		if err == nil && (w.MadeMS < 0 || w.UntilMS < 0 || w.UntilMS > 1<<43) {
			err = errors.New("a time that can't be")
		}
		if err == nil && slices.ContainsFunc(all, func(o Pass) bool { return o.Name == p.Name }) {
			err = errors.New("the name stands there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("token %d (%q): %w", i+1, printable(w.Name), err)
		}
		all = append(all, p)
	}
	return all, nil
}

// changePasses lets f change the passes of a file. Others that change it at the same time wait.
func changePasses(path string, f func([]Pass) ([]Pass, error)) error {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("change who is let in: %w", err)
	}
	defer func() { _ = lock.Close() }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("change who is let in: lock %s: %w", lock.Name(), err)
	}
	all, err := ReadPasses(path)
	if err != nil {
		return err
	}
	if all, err = f(all); err != nil {
		return err
	}
	if len(all) > mostPasses {
		return fmt.Errorf("there are %d tokens already: remove one first", mostPasses)
	}
	list := make([]written, len(all))
	for i, p := range all {
		list[i] = written{p.Name, p.May.String(), hex.EncodeToString(p.sum[:]), int64(p.Made) / 1e6, int64(p.Until) / 1e6}
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("change who is let in: %w", err)
	}
	_, err = t.Write(append(b, '\n'))
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("change who is let in: %w", errors.Join(err, os.Remove(t.Name())))
	}
	return nil
}

// AddPass makes a pass of the given name, role and end, and gives its token, which stands nowhere else. It is an error when there is one of the name.
func AddPass(path string, p Pass) (token string, err error) {
	if err := CheckName(p.Name); err != nil {
		return "", err
	}
	random := make([]byte, 24)
	_, _ = rand.Read(random) // never fails
	token = hex.EncodeToString(random)
	p.sum = sha256.Sum256([]byte(token))
	err = changePasses(path, func(all []Pass) ([]Pass, error) {
		if slices.ContainsFunc(all, func(o Pass) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("there is a token for %s: remove it first, or give another name", p.Name)
		}
		return append(all, p), nil
	})
	return token, err
}

// RemovePass takes a pass back: who has its token, or a page that was opened with it, is let in no more.
func RemovePass(path, name string) error {
	return changePasses(path, func(all []Pass) ([]Pass, error) {
		i := slices.IndexFunc(all, func(o Pass) bool { return o.Name == name })
		if i < 0 {
			var names []string
			for _, p := range all {
				names = append(names, p.Name)
			}
			hint := ""
			if near := measure.Nearest(name, names); near != "" {
				hint = "; did you mean " + near + "?"
			}
			return nil, fmt.Errorf("there is no token for %q%s", name, hint)
		}
		return slices.Delete(all, i, i+1), nil
	})
}

// Passes reads a file of passes when it changes. Safe for several goroutines.
type Passes struct {
	Path string

	mu   sync.Mutex // guards what follows
	read time.Time  // modification of what was read
	size int64
	all  []Pass
	err  error
}

// All gives those whose time is not over. An error lets nobody in.
func (p *Passes) All() ([]Pass, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.read, p.size, p.all, p.err = time.Time{}, 0, nil, nil
	case err != nil:
		return nil, fmt.Errorf("read who is let in: %w", err)
	case !info.ModTime().Equal(p.read) || info.Size() != p.size || p.err != nil:
		p.all, p.err = ReadPasses(p.Path)
		p.read, p.size = info.ModTime(), info.Size()
	}
	if p.err != nil {
		return nil, p.err
	}
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(p.all), func(o Pass) bool { return o.Over(now) }), nil
}

// asker is somebody who is let in.
type asker struct {
	name string // of its pass; "": has the server's own token, or is the same user
	may  Role
}

// by gives the asker in the words of the audit, by which way it came.
func (a asker) by(way string) string {
	if a.name == "" {
		return way
	}
	return way + " (" + a.name + ")"
}

// holder gives whose token it is. It compares in a time that tells nothing of a token.
func (s *Server) holder(given string) (asker, bool) {
	if s.Token == "" || given == "" {
		return asker{}, false
	}
	sum, own := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.Token))
	if subtle.ConstantTimeCompare(sum[:], own[:]) == 1 {
		return asker{may: Traces}, true
	}
	for _, p := range s.passes() {
		if subtle.ConstantTimeCompare(sum[:], p.sum[:]) == 1 {
			return asker{p.Name, p.May}, true
		}
	}
	return asker{}, false
}

// passes gives those that are valid; none when they can't be read, which health tells.
func (s *Server) passes() []Pass {
	if s.Passes == nil {
		return nil
	}
	all, err := s.Passes.All()
	if err != nil {
		return nil
	}
	return all
}

// needed gives what a request takes that changes something.
func needed(path string) Role {
	if path == "/api/profiles/take" || path == "/api/scripts" || strings.HasPrefix(path, "/api/scripts/") {
		return Traces
	}
	return Records
}
