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
)

// Version is that of the protocol: both ends must have the same. docs/FORMATS.md describes it.
const Version = 1

// A message is a frame: its length as u32, most significant byte first, and a JSON object with one member, which is what it is.
//
//	| length u32 | {"test":{...}} |
const frameHead = 4

// How long a message may be, in bytes. What a stranger sends is small.
const (
	mostFirst = 4 << 10  // before the token was shown, and of the first message on a connection
	mostAsked = 64 << 10 // from a client
	mostTold  = 8 << 20  // from a server: a diagnosis is tens of kilobytes
)

// message is all that ends say to each other. Exactly one member is set.
type message struct {
	Call    *call    `json:"call,omitempty"`    // client: first of a connection that says what to do
	Hello   *hello   `json:"hello,omitempty"`   // server: its answer
	Proof   *proof   `json:"proof,omitempty"`   // client: that it has the token
	Welcome *nothing `json:"welcome,omitempty"` // server: it has
	Test    *Test    `json:"test,omitempty"`    // client: a run
	Ready   *ready   `json:"ready,omitempty"`   // server: the name to join it by
	Join    *join    `json:"join,omitempty"`    // client: first of a connection that carries traffic
	Joined  *nothing `json:"joined,omitempty"`  // server: all connections are there
	Begin   *nothing `json:"begin,omitempty"`   // client
	Part    *Part    `json:"part,omitempty"`    // server: an interval
	Stop    *nothing `json:"stop,omitempty"`    // client: it has measured all, traffic may end
	End     *End     `json:"end,omitempty"`     // server: what it measured in all
	Refused *refusal `json:"refused,omitempty"` // server: why not; the connection ends
}

type (
	nothing struct{}
	call    struct {
		Version int `json:"version"`
	}
	hello struct {
		Version int    `json:"version"`
		Nonce   string `json:"nonce"` // hexadecimal
		Open    bool   `json:"open"`  // no token is needed
	}
	proof struct {
		Nonce string `json:"nonce"` // the client's own
		MAC   string `json:"mac"`   // see sign
	}
	ready struct {
		ID string `json:"id"`
	}
	join struct {
		ID     string `json:"id"`
		Way    Way    `json:"way"`
		Stream int    `json:"stream"` // from 0
	}
	refusal struct {
		Code string `json:"code"` // one of those below
		Why  string `json:"why"`  // one clause
	}
)

// The codes of a refusal.
const (
	refusedVersion = "version"
	refusedToken   = "token"
	refusedBusy    = "busy"
	refusedTest    = "test" // what was asked can't be, or is beyond the server's bounds
	refusedFailed  = "failed"
)

// errStranger is what comes from somebody who does not speak the protocol.
var errStranger = errors.New("no message of culprit load")

// kind gives the name of the one member that is set, as JSON has it.
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
			return "", fmt.Errorf("%w: it is %s and %s at once", errStranger, set, one.name)
		default:
			set = one.name
		}
	}
	if set == "" {
		return "", fmt.Errorf("%w: it says nothing", errStranger)
	}
	return set, nil
}

// readMessage reads one message of at most so many bytes. What is announced takes memory only as it comes. The error is io.EOF where the
// connection ended between messages, and errStranger where what came is none.
func readMessage(r io.Reader, most int) (*message, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > int64(most) {
		return nil, fmt.Errorf("%w: one of %d bytes, at most %d are allowed here", errStranger, n, most)
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

// parseMessage reads what follows the length of a message.
func parseMessage(b []byte) (*message, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", errStranger, err)
	}
	if _, err := m.kind(); err != nil {
		return nil, err
	}
	return &m, m.check()
}

// check holds what came to what can be.
func (m *message) check() error {
	var err error
	switch {
	case m.Test != nil:
		err = m.Test.Check()
	case m.Part != nil:
		err = m.Part.check()
	case m.End != nil:
		err = m.End.check()
	case m.Join != nil && (m.Join.Stream < 0 || m.Join.Stream >= MostStreams || m.Join.Way != Up && m.Join.Way != Down):
		err = fmt.Errorf("stream %d %q", m.Join.Stream, m.Join.Way)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStranger, err)
	}
	return nil
}

// writeMessage writes one in one write.
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

// newSecret gives 128 random bits in hexadecimal: a token, a nonce, the name of a test.
func newSecret() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return hex.EncodeToString(b[:])
}

// NewToken makes a token.
func NewToken() string { return newSecret() }

// sign gives the proof that whoever made it has the token: the token itself never travels.
func sign(token, server, client string) string {
	h := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(h, "culprit load %d\n%s\n%s\n", Version, server, client)
	return hex.EncodeToString(h.Sum(nil))
}

// proves says whether the proof is of that token.
func (p *proof) proves(token, server string) bool {
	return hmac.Equal([]byte(p.MAC), []byte(sign(token, server, p.Nonce)))
}
