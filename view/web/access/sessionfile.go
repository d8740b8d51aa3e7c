package access

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"culprit/measure"
	"culprit/trusted"
)

// sessionJSON is a session in the file. It has no secrets, only their SHA-256, so a reader of the
// file can't use the sessions.
type sessionJSON struct {
	Token   string `json:"token"` // name; "": the server's own
	Browser string `json:"browser"`
	From    string `json:"from"`
	MadeMS  int64  `json:"made_ms"`
	UsedMS  int64  `json:"used_ms"`
	Cookie  string `json:"cookie_sha256"`
	Secret  string `json:"secret_sha256,omitempty"`
	Of      string `json:"token_sha256"`
}

// maxSessionFile limits the file: maxSessions for each of maxTokens tokens.
const maxSessionFile = 16 << 20

// readSessions returns the sessions in a file, none if there is no file. It fails if other users
// may write the file or own it, if it is a symbolic link, and if it is malformed.
func readSessions(path string) ([]*session, error) {
	f, err := trusted.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxSessionFile))
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	all, err := parseSessions(b)
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %s: %w: all must log in again", path, err)
	}
	return all, nil
}

func parseSessions(b []byte) ([]*session, error) {
	var list []sessionJSON
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(list) > maxSessions*(maxTokens+1) {
		return nil, fmt.Errorf("%d sessions, more than %d", len(list), maxSessions*(maxTokens+1))
	}
	var all []*session
	for i := range list {
		one, err := list[i].parse()
		if err != nil {
			return nil, fmt.Errorf("session %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func (j *sessionJSON) parse() (*session, error) {
	one := &session{Session: Session{
		Token: j.Token, Browser: Printable(j.Browser), From: Printable(j.From),
		Made: measure.Time(j.MadeMS) * 1e6, Used: measure.Time(j.UsedMS) * 1e6,
	}}
	if j.Token != "" {
		if err := CheckName(j.Token); err != nil {
			return nil, err
		}
	}
	const maxMillis = 1 << 43
	if j.MadeMS <= 0 || j.UsedMS < j.MadeMS || j.UsedMS > maxMillis {
		return nil, errors.New("a time that can't be")
	}
	for _, f := range []struct {
		text string
		into *sum
		may  bool // be empty
	}{{j.Cookie, &one.cookie, false}, {j.Secret, &one.secret, true}, {j.Of, &one.token, false}} {
		if f.text == "" && f.may {
			continue
		}
		b, err := hex.DecodeString(f.text)
		if err != nil || len(b) != len(f.into) {
			return nil, errors.New("a sha256 has not 64 hexadecimal digits")
		}
		copy(f.into[:], b)
	}
	one.ID = hex.EncodeToString(one.cookie[:8])
	return one, nil
}

// writeSessions replaces the file at once.
func writeSessions(path string, all []*session) error {
	list := make([]sessionJSON, len(all))
	for i, one := range all {
		list[i] = sessionJSON{
			Token: one.Token, Browser: one.Browser, From: one.From,
			MadeMS: int64(one.Made) / 1e6, UsedMS: int64(one.Used) / 1e6,
			Cookie: hex.EncodeToString(one.cookie[:]), Of: hex.EncodeToString(one.token[:]),
		}
		if one.secret != (sum{}) {
			list[i].Secret = hex.EncodeToString(one.secret[:])
		}
	}
	if err := writeJSON(path, list); err != nil {
		return fmt.Errorf("write the sessions, which a restart will lack: %w", err)
	}
	return nil
}
