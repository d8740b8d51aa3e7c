package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"culprit/heapbound"
	"culprit/measure"
)

// usual returns a test like one of the command line.
func usual() Test {
	return Test{Kind: Stream, Way: Up, Streams: 1, For: measure.Second, Every: measure.Second,
		Size: 128 << 10}
}

func TestMessagesComeBack(t *testing.T) {
	test := usual()
	part := Part{N: 3, From: 2, To: 4,
		Traffic: []Traffic{{Way: Up, Bytes: 7, Retransmits: unknown()}}, CPU: noUsage()}
	for _, m := range []message{
		{Call: &call{Version: 1}}, {Hello: &hello{Version: 1, Nonce: "ab", Open: true}}, {Proof: &proof{Nonce: "a", MAC: "b"}}, {Welcome: &nothing{}},
		{Test: &test}, {Ready: &ready{ID: "x"}}, {Join: &join{ID: "x", Way: Down, Stream: 3}}, {Joined: &nothing{}}, {Begin: &nothing{}}, {Part: &part}, {Stop: &nothing{}},
		{End: &End{Host: "h", Total: part, Wire: []Wire{}, Unknown: map[string]string{"cpu": "why"}, Notes: []string{}}}, {Refused: &refusal{Code: "busy", Why: "so"}},
	} {
		b, err := appendMessage(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(iotest.OneByteReader(bytes.NewReader(b)), maxServerMessage)
		if err != nil {
			t.Fatalf("%s: %v", b[frameHead:], err)
		}
		again, err := appendMessage(nil, got)
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s came back as %s: %v", b[frameHead:], again, err)
		}
	}
}

// TestInvalidMessages checks that invalid messages are refused, and that an announced length
// takes no memory without data.
func TestInvalidMessages(t *testing.T) {
	frame := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	for name, b := range map[string][]byte{
		"an HTTP request":       []byte("GET / HTTP/1.1\r\n\r\n"),
		"a length of 0":         {0, 0, 0, 0},
		"too long":              frame(`{"call":{"version":1}}` + strings.Repeat(" ", maxFirstMessage)),
		"no JSON":               frame("call"),
		"nothing said":          frame("{}"),
		"two at once":           frame(`{"call":{"version":1},"begin":{}}`),
		"a test that can't be":  frame(`{"test":{"kind":"stream","way":"up","streams":100000,"for_ns":1000000000,"every_ns":1000000000,"size_bytes":1}}`),
		"a stream below 0":      frame(`{"join":{"id":"","way":"up","stream":-1}}`),
		"a direction that is 2": frame(`{"join":{"id":"","way":"both","stream":0}}`),
		"a part backwards":      frame(`{"part":{"n":1,"from_ns":2,"to_ns":1}}`),
		"a bucket below 0":      frame(`{"part":{"n":1,"times":{"first_bucket":-1}}}`),
	} {
		if m, err := readMessage(bytes.NewReader(b), maxFirstMessage); !errors.Is(err,
			errNotProtocol) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := readMessage(bytes.NewReader(nil), maxFirstMessage); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	cut := bytes.NewReader([]byte{0, 0, 1, 0, '{'})
	if _, err := readMessage(cut, maxFirstMessage); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an end in the middle: %v", err)
	}
	if n := testing.AllocsPerRun(1, func() {
		length := bytes.NewReader([]byte{0, 0x7f, 0xff, 0xff})
		r := io.MultiReader(length, iotest.ErrReader(io.EOF))
		readMessage(r, maxServerMessage) //nolint:errcheck // only its memory counts
	}); n > 10 {
		t.Errorf("8 MB that do not come take %v allocations", n)
	}
}

func TestProof(t *testing.T) {
	p := &proof{Nonce: "c"}
	p.MAC = sign("secret", "s", "c")
	if !p.proves("secret", "s") {
		t.Error("the right token proves nothing")
	}
	if p.proves("secret2", "s") || p.proves("secret", "t") ||
		(&proof{Nonce: "d", MAC: p.MAC}).proves("secret", "s") ||
		(&proof{}).proves("secret", "s") {
		t.Error("another token, or another's proof, is taken")
	}
}

func TestTestCheck(t *testing.T) {
	good := usual()
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Test){
		"--streams": func(t *Test) { t.Streams = 0 }, "--for": func(t *Test) { t.For = 0 }, "--every": func(t *Test) { t.Every = 1 }, "--size": func(t *Test) { t.Size = 0 },
		"--window": func(t *Test) { t.Window = 10 }, "--rate": func(t *Test) { t.Rate = measure.NaN }, "--rate 100": func(t *Test) { t.Rate = 100 },
		"--congestion": func(t *Test) { t.Congestion = "../x" }, "intervals": func(t *Test) { t.For = 3600 * measure.Second; t.Every = 100 * measure.Millisecond },
		"direction": func(t *Test) { t.Way = "sideways" }, "a test is": func(t *Test) { t.Kind = "" },
	} {
		bad := usual()
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMessage checks that any input is an error, or a message that is the same when written and
// read again.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"call":{"version":1}}`))
	f.Add(
		[]byte(
			`{"test":{"kind":"rr","way":"up","streams":2,"for_ns":1000000000,"every_ns":1000000000,"request_bytes":1,"response_bytes":1,"rate_transactions_per_s":10}}`,
		),
	)
	f.Add(
		[]byte(
			`{"part":{"n":1,"from_ns":0,"to_ns":5,"traffic":[{"way":"up","bytes":5,"rtt_ns":null}],"times":{"first_bucket":3,"counts":[1,2]},"cpu":{"machine_cpus":1,"modes_cpus":{"usr":1}}}}`,
		),
	)
	f.Add(
		[]byte(
			`{"end":{"host":"h","total":{},"diagnosis":{"findings":[{"rule":"link-saturated","severity":"high"}]},"unknown":{"cpu":"x"}}}`,
		),
	)
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			return
		}
		once, err := appendMessage(nil, m)
		if err != nil {
			t.Fatalf("%s was read and can't be written: %v", b, err)
		}
		again, err := readMessage(bytes.NewReader(once), len(once))
		if err != nil {
			t.Fatalf("%s was written and can't be read: %v", once[frameHead:], err)
		}
		twice, err := appendMessage(nil, again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s came back as %s: %v", once, twice, err)
		}
	})
}

// FuzzResult checks that any file is an error, or a result that can be compared with itself.
func FuzzResult(f *testing.F) {
	f.Add(
		[]byte(
			`{"view":"load.result","format":1,"test":{"kind":"stream","way":"up","streams":1,"for_ns":1000000000,"every_ns":1000000000,"size_bytes":1},"runs":[{"here":{"total":{"to_ns":5,"traffic":[{"way":"up"}]}},"there":{"total":{"to_ns":5,"traffic":[{"way":"up","bytes":9}]}}}]}`,
		),
	)
	f.Add(
		[]byte(
			`{"view":"load.result","format":1,"test":{"kind":"rr","way":"up","streams":1,"for_ns":1000000000,"every_ns":1000000000,"request_bytes":1,"response_bytes":1},"runs":[{"here":{"total":{"to_ns":5,"times":{"counts":[3,4]},"traffic":[{"way":"up","exchanges":7}]}}}]}`,
		),
	)
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		r, err := parseResult(b)
		if err != nil {
			return
		}
		c, err := Compare([2]string{"a", "b"}, r, r)
		if err != nil {
			return
		}
		for _, row := range c.Rows {
			if row.Sure || !(row.Ratio.Ratio > 0) {
				t.Fatalf("%s differs from itself: %+v", b, row)
			}
		}
		again := Summarise(r.Test, r.Server, r.Version, r.Runs)
		if len(again.Ways) != len(r.Test.ways()) {
			t.Fatalf("%s has %d summaries", b, len(again.Ways))
		}
	})
}

func TestNumbersThatAreUnknown(t *testing.T) {
	b, err := unknown().MarshalJSON()
	var n Number
	if err != nil || string(b) != "null" || n.UnmarshalJSON(b) != nil || n.Known() {
		t.Errorf("%s, %v, %v", b, err, n)
	}
	if !reflect.DeepEqual(noUsage().Machine.Known(), false) {
		t.Error("a usage that nobody measured is known")
	}
}
