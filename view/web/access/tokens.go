package access

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"culprit/measure"
	"culprit/trusted"
)

// Token grants a role to its owner, beside the server's own token, which grants every role.
type Token struct {
	Name string // of the owner, for the audit log
	May  Role
	Made measure.Time
	Ends measure.Time // 0: never
	sum  sum
}

// Expired reports whether the token is no longer valid.
func (t *Token) Expired(now time.Time) bool {
	return t.Ends != 0 && measure.Time(now.UnixNano()) >= t.Ends
}

const (
	maxTokens    = 1000 // bounds the time to check a request
	maxTokenName = 64   // bytes
)

// CheckName returns an error if a token can't have the name. It may have letters, digits and
// . _ - @, since it appears in the audit log and on command lines.
func CheckName(name string) error {
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && !(r >= '0' && r <= '9') && !strings.ContainsRune("._-@", r) {
			return fmt.Errorf("the name %q has %q: letters, digits and . _ - @ are allowed",
				name, r)
		}
	}
	if name == "" || len(name) > maxTokenName {
		return fmt.Errorf("a name has 1 to %d characters", maxTokenName)
	}
	return nil
}

// tokenJSON is a token in the file. Only the SHA-256 of the secret is stored, so a reader of the
// file can't use the token.
type tokenJSON struct {
	Name    string `json:"name"`
	May     string `json:"may"`
	Sum     string `json:"sha256"`
	MadeMS  int64  `json:"made_ms"`
	UntilMS int64  `json:"until_ms,omitempty"`
}

// ReadTokens returns the tokens in a file, none if there is no file. It fails if other users may
// write the file or own it, if it is a symbolic link, and if it is malformed.
func ReadTokens(path string) ([]Token, error) {
	f, err := trusted.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	all, err := parseTokens(b)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %s: %w", path, err)
	}
	return all, nil
}

func parseTokens(b []byte) ([]Token, error) {
	var list []tokenJSON
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(list) > maxTokens {
		return nil, fmt.Errorf("%d tokens, more than %d", len(list), maxTokens)
	}
	var all []Token
	for i := range list {
		t, err := list[i].parse()
		if err == nil && slices.ContainsFunc(all, func(o Token) bool { return o.Name == t.Name }) {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			return nil, fmt.Errorf("token %d (%q): %w", i+1, Printable(list[i].Name), err)
		}
		all = append(all, t)
	}
	return all, nil
}

func (j *tokenJSON) parse() (Token, error) {
	t := Token{
		Name: j.Name,
		Made: measure.Time(j.MadeMS) * 1e6,
		Ends: measure.Time(j.UntilMS) * 1e6,
	}
	var err error
	if t.May, err = ParseRole(j.May); err != nil {
		return t, err
	}
	if err := CheckName(j.Name); err != nil {
		return t, err
	}
	sum, err := hex.DecodeString(j.Sum)
	if err != nil || len(sum) != len(t.sum) {
		return t, errors.New("sha256 has not 64 hexadecimal digits")
	}
	copy(t.sum[:], sum)
	if j.MadeMS < 0 || j.UntilMS < 0 || j.UntilMS > 1<<43 {
		return t, errors.New("a time that can't be")
	}
	return t, nil
}

// changeTokens replaces the tokens of a file by what f returns for them. Concurrent changes wait
// for each other.
func changeTokens(path string, f func([]Token) ([]Token, error)) error {
	lock, err := trusted.Open(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("change the tokens: %w", err)
	}
	defer func() { _ = lock.Close() }() // unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("change the tokens: lock %s: %w", lock.Name(), err)
	}
	all, err := ReadTokens(path)
	if err != nil {
		return err
	}
	if all, err = f(all); err != nil {
		return err
	}
	if len(all) > maxTokens {
		return fmt.Errorf("there are %d tokens already: remove one first", maxTokens)
	}
	if err := writeTokens(path, all); err != nil {
		return fmt.Errorf("change the tokens: %w", err)
	}
	return nil
}

// writeTokens replaces the file at once, so that no reader sees half of it.
func writeTokens(path string, all []Token) error {
	list := make([]tokenJSON, len(all))
	for i, t := range all {
		sum := hex.EncodeToString(t.sum[:])
		list[i] = tokenJSON{t.Name, t.May.String(), sum, int64(t.Made) / 1e6, int64(t.Ends) / 1e6}
	}
	return writeJSON(path, list)
}

// writeJSON replaces a file at once by the JSON of a value. Only the owner may read it.
func writeJSON(path string, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return trusted.Replace(path, append(b, '\n'))
}

// AddToken adds a token with the given name, role and end to a file, and returns its secret, which
// is stored nowhere. The error says that the name is invalid or in use, or that the file can't be
// changed.
func AddToken(path string, t Token) (secret string, err error) {
	if err := CheckName(t.Name); err != nil {
		return "", err
	}
	secret = randomSecret()
	t.sum = sumOf(secret)
	err = changeTokens(path, func(all []Token) ([]Token, error) {
		if slices.ContainsFunc(all, func(o Token) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("there is a token for %s: "+
				"remove it first, or choose another name", t.Name)
		}
		return append(all, t), nil
	})
	return secret, err
}

// randomSecret returns 192 random bits in hexadecimal.
func randomSecret() string {
	random := make([]byte, 24)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// RemoveToken removes a token from a file. Its owner loses access at once, also in open pages. The
// error says that there is no such token, or that the file can't be changed.
func RemoveToken(path, name string) error {
	return changeTokens(path, func(all []Token) ([]Token, error) {
		i := slices.IndexFunc(all, func(o Token) bool { return o.Name == name })
		if i < 0 {
			var names []string
			for _, t := range all {
				names = append(names, t.Name)
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

// Tokens is a file of tokens, which is read again when it changes. It is safe for concurrent use.
type Tokens struct {
	Path string

	mu       sync.Mutex // guards the fields below
	modified time.Time  // of the version that was read
	size     int64
	all      []Token
	err      error
}

// Valid returns the tokens that have not expired. On an error, which says why the file can't be
// read, no token is valid.
func (t *Tokens) Valid() ([]Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Lstat(t.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.modified, t.size, t.all, t.err = time.Time{}, 0, nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the tokens: %w", err)
	case !info.ModTime().Equal(t.modified) || info.Size() != t.size || t.err != nil:
		t.all, t.err = ReadTokens(t.Path)
		t.modified, t.size = info.ModTime(), info.Size()
	}
	if t.err != nil {
		return nil, t.err
	}
	now := time.Now()
	expired := func(o Token) bool { return o.Expired(now) }
	return slices.DeleteFunc(slices.Clone(t.all), expired), nil
}
