package load

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Version is the version of the protocol, the same at both ends. docs/FORMATS.md describes it.
const Version = 1

// A message is a frame: its length as u32, most significant byte first, and a JSON object with one
// member that names its type.
//
//	| length u32 | {"test":{...}} |
const frameHead = 4

// The highest length of a message in bytes, by its sender.
const (
	maxFirstMessage  = 4 << 10  // before the token is proved, and the first of a connection
	maxClientMessage = 64 << 10 // from a client
	maxServerMessage = 8 << 20  // from a server: a diagnosis has tens of kilobytes
)

// message is the union of all messages. Exactly one member is set.
type message struct {
	Call    *call    `json:"call,omitempty"`    // client: first on a control connection
	Hello   *hello   `json:"hello,omitempty"`   // server: answer to call
	Proof   *proof   `json:"proof,omitempty"`   // client: proof of the token
	Welcome *nothing `json:"welcome,omitempty"` // server: the proof is valid
	Test    *Test    `json:"test,omitempty"`    // client: start a run
	Ready   *ready   `json:"ready,omitempty"`   // server: the test's name, for join
	Join    *join    `json:"join,omitempty"`    // client: first on a traffic connection
	Joined  *nothing `json:"joined,omitempty"`  // server: all connections have joined
	Begin   *nothing `json:"begin,omitempty"`   // client
	Part    *Part    `json:"part,omitempty"`    // server: an interval's numbers
	Stop    *nothing `json:"stop,omitempty"`    // client: all is measured, traffic may end
	End     *End     `json:"end,omitempty"`     // server: numbers of the whole run
	Refused *refusal `json:"refused,omitempty"` // server: the reason; the connection ends
}

type (
	nothing struct{}
	call    struct {
		Version int `json:"version"`
	}
	hello struct {
		Version int    `json:"version"`
		Nonce   string `json:"nonce"` // hexadecimal
		Open    bool   `json:"open"`  // no token is required
	}
	proof struct {
		Nonce string `json:"nonce"` // the client's own
		MAC   string `json:"mac"`   // see sign
	}
	ready struct {
		ID string `json:"id"`
		// Ports has a port per flow of a test that has no connections to the server's own port.
		Ports []int `json:"ports,omitempty"`
	}
	join struct {
		ID     string `json:"id"`
		Way    Way    `json:"way"`
		Stream int    `json:"stream"` // from 0
	}
	refusal struct {
		Code string `json:"code"` // one of the constants below
		Why  string `json:"why"`  // one clause
	}
)

// The codes of a refusal.
const (
	refusedVersion = "version"
	refusedToken   = "token"
	refusedBusy    = "busy"
	refusedTest    = "test" // the test is invalid or beyond the server's bounds
	refusedFailed  = "failed"
)

// errNotProtocol is the error of a peer that does not speak the protocol.
var errNotProtocol = errors.New("not a message of culprit load")

// kind returns the JSON name of the one member that is set.
func (m *message) kind() (string, error) {
	set := ""
	for _, one := range []struct {
		is   bool
		name string
	}{
		{m.Call != nil, "call"}, {m.Hello != nil, "hello"}, {m.Proof != nil, "proof"}, {m.Welcome != nil, "welcome"}, {m.Test != nil, "test"}, {m.Ready != nil, "ready"},
		{m.Join != nil, "join"}, {m.Joined != nil, "joined"}, {m.Begin != nil, "begin"}, {m.Part != nil, "part"}, {m.Stop != nil, "stop"}, {m.End != nil, "end"},
		{m.Refused != nil, "refused"},
	} {
		switch {
		case !one.is:
		case set != "":
			return "", fmt.Errorf("%w: it is %s and %s at once", errNotProtocol, set, one.name)
		default:
			set = one.name
		}
	}
	if set == "" {
		return "", fmt.Errorf("%w: it is empty", errNotProtocol)
	}
	return set, nil
}

// readMessage reads one message of at most limit bytes. Memory is allocated as data arrive. The
// error is io.EOF when the connection ended between messages, and errNotProtocol when the data are
// not a message.
func readMessage(r io.Reader, limit int) (*message, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > int64(limit) {
		return nil, fmt.Errorf("%w: one of %d bytes, at most %d are allowed here", errNotProtocol,
			n, limit)
	}
	var b bytes.Buffer
	if got, err := io.CopyN(&b, r, n); err != nil {
		if errors.Is(err, io.EOF) && got < n {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return parseMessage(b.Bytes())
}

// parseMessage parses the part of a message after its length.
func parseMessage(b []byte) (*message, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotProtocol, err)
	}
	if _, err := m.kind(); err != nil {
		return nil, err
	}
	return &m, m.check()
}

// check returns an error for a message with invalid values.
func (m *message) check() error {
	var err error
	switch {
	case m.Test != nil:
		err = m.Test.Check()
	case m.Part != nil:
		err = m.Part.check()
	case m.End != nil:
		err = m.End.check()
	case m.Ready != nil:
		if len(m.Ready.Ports) > 2*MaxStreams ||
			slices.ContainsFunc(m.Ready.Ports, func(p int) bool { return p < 1 || p > 65535 }) {
			err = errors.New("an invalid port")
		}
	case m.Join == nil:
	case m.Join.Stream < 0 || m.Join.Stream >= MaxStreams || m.Join.Way != Up && m.Join.Way != Down:
		err = fmt.Errorf("stream %d %q", m.Join.Stream, m.Join.Way)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNotProtocol, err)
	}
	return nil
}

// writeMessage writes a message by one call of Write.
func writeMessage(w io.Writer, m *message) error {
	b, err := appendMessage(nil, m)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func appendMessage(b []byte, m *message) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...), nil
}

// newSecret returns 128 random bits in hexadecimal: a token, a nonce, the name of a test.
func newSecret() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return hex.EncodeToString(b[:])
}

// NewToken returns a new token.
func NewToken() string { return newSecret() }

// sign returns the proof of having the token, which itself is never sent.
func sign(token, server, client string) string {
	h := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(h, "culprit load %d\n%s\n%s\n", Version, server, client)
	return hex.EncodeToString(h.Sum(nil))
}

// proves reports whether the proof is valid for a token.
func (p *proof) proves(token, server string) bool {
	return hmac.Equal([]byte(p.MAC), []byte(sign(token, server, p.Nonce)))
}
