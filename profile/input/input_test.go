package input

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"culprit/heapbound"

	"github.com/klauspost/compress/zstd"
)

// wide returns text in UTF-16, with a mark if it begins with one.
func wide(text string, big bool) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			b = append(b, byte(u>>8), byte(u))
		} else {
			b = append(b, byte(u), byte(u>>8))
		}
	}
	return b
}

// TestDecoded: all forms of a text become UTF-8 with line feeds; what is in that form, or binary,
// stays as it is.
func TestDecoded(t *testing.T) {
	const text = "main;größe 1\nmain;𝄞 2\n"
	const ascii = "main;work 1\nmain;rest 2\n"
	for _, tt := range []struct {
		name string
		in   []byte
		want string
		same bool
	}{
		{"UTF-8", []byte(text), text, true},
		{"UTF-8 with a mark", []byte("\xef\xbb\xbf" + text), text, false},
		{"UTF-16 with a mark", wide("\ufeff"+text, false), text, false},
		{"big UTF-16 with a mark", wide("\ufeff"+text, true), text, false},
		{"UTF-16", wide(ascii, false), ascii, false},
		{"big UTF-16", wide(ascii, true), ascii, false},
		{"UTF-16, cut within a character", wide("\ufeff"+ascii+"x", true)[:2*len(ascii)+3],
			ascii, false},
		{"half a pair", append(wide("\ufeffa", false), 0x34, 0xd8), "a\ufffd", false},
		{"carriage returns", []byte(strings.ReplaceAll(text, "\n", "\r")), text, false},
		{"carriage returns and line feeds", []byte("a\r\nb"), "a\r\nb", true},
		{"binary", []byte("\x0a\x00\x01\x0d\x02\x00"), "\x0a\x00\x01\x0d\x02\x00", true},
		{"too short for UTF-16", []byte("a\x00b\x00"), "a\x00b\x00", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := bytes.NewReader(tt.in)
			out := Decoded(tt.in, in)
			if same := out == io.Reader(in); same != tt.same {
				t.Errorf("left as it is: %t, want %t", same, tt.same)
			}
			got, err := io.ReadAll(out)
			if err != nil || string(got) != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// zipped returns text packed by gzip.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPackings: gzip of several members is one text. What stands behind the last one is left out,
// and described.
func TestPackings(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, tt := range []struct{ name, in, packing, want, ignored string }{
		{"gzip", zipped(t, "one"), "gzip", "one", ""},
		{"two members", zipped(t, "one") + zipped(t, " two"), "gzip", "one two", ""},
		{"zeros behind", zipped(t, "one") + "\x00\x00\x00", "gzip", "one",
			"zeros behind the end of the gzip data are left out"},
		{"bytes behind", zipped(t, "one") + "xyz", "gzip", "one",
			"bytes behind the end of the gzip data are left out, the first is 0x78"},
		{"zstd", string(z.EncodeAll([]byte("one"), nil)), "zstd", "one", ""},
		{"bzip2, empty", "BZh9\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00", "bzip2", "", ""},
		{"a name like bzip2", "BZh91;work 1\n", "", "", ""},
		{"text", "main;work 1\n", "", "", ""},
		{"nothing", "", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := PackingOf([]byte(tt.in))
			if p == nil || tt.packing == "" {
				if p != nil || tt.packing != "" {
					t.Errorf("packing %+v, want %q", p, tt.packing)
				}
				return
			}
			out, err := p.Open(strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(out)
			if err != nil || string(got) != tt.want || p.Name != tt.packing ||
				out.Ignored() != tt.ignored {
				t.Errorf("%s: %q, %v, left out %q; want %s: %q, %q", p.Name, got, err, out.Ignored(),
					tt.packing, tt.want, tt.ignored)
			}
		})
	}
}

// FuzzDecoded: any bytes become bytes; UTF-16 becomes valid text.
func FuzzDecoded(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00\x34\xd8"))
	f.Add([]byte("\xef\xbb\xbfa\rb"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		n := 0
		out := Decoded(b, bytes.NewReader(b))
		for buf := make([]byte, 100); ; {
			got, err := out.Read(buf)
			if n += got; err != nil {
				break
			}
		}
		if n > 3*len(b) {
			t.Errorf("%d bytes of %d", n, len(b))
		}
	})
}
