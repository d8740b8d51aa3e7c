package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Packed files that are cut off anywhere, or have a byte changed, are never read as less: they are
// refused as damaged, or read whole.
func TestDamagedPackings(t *testing.T) {
	for _, name := range []string{"folded.txt.zst", "folded.txt.bz2", "folded.zst.gz"} {
		whole, err := os.ReadFile(filepath.Join("testdata/corpus", name))
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		check := func(what string, at int, in []byte) {
			tree, err := Read(never, bytes.NewReader(in), "", Options{})
			var wrong *ParseError
			switch {
			case err == nil && tree.Sum() != 10:
				t.Errorf("%s, %s at %d: read as %v", name, what, at, tree.Sum())
			case err != nil && !errors.As(err, &wrong):
				t.Errorf("%s, %s at %d: %v", name, what, at, err)
			case err != nil && strings.Contains(err.Error(), "damaged "):
				refused++
			}
		}
		for at := 12; at < len(whole); at++ {
			check("cut", at, whole[:at])
			changed := bytes.Clone(whole)
			changed[at] ^= 0x10
			check("changed", at, changed)
		}
		if refused < len(whole) {
			t.Errorf("%s: refused as damaged %d times", name, refused)
		}
	}
}

// An error of the input is no damage of what is packed.
func TestPackedInputFails(t *testing.T) {
	whole, err := os.ReadFile("testdata/corpus/folded.txt.zst")
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the cable was pulled")
	in := io.MultiReader(bytes.NewReader(whole[:len(whole)-5]), failing{failed})
	_, err = Read(never, in, "", Options{})
	var wrong *ParseError
	if !errors.Is(err, failed) || errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A packed file that unpacks to more than allowed is refused and never cut off.
func TestUnpackedIsBounded(t *testing.T) {
	text := strings.Repeat("main;work 1\n", 1<<18)
	pack := map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return z
		},
	}
	for name, open := range pack {
		var b bytes.Buffer
		z := open(&b)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			most    int64
			refused bool
		}{{int64(len(text)), false}, {int64(len(text)) - 1, true}} {
			tree, err := Read(never, bytes.NewReader(b.Bytes()), "", Options{Unpacked: tt.most})
			var large *UnpackedError
			switch {
			case tt.refused != errors.As(err, &large):
				t.Errorf("%s, at most %d bytes: %v", name, tt.most, err)
			case !tt.refused && (err != nil || tree.Sum() != 1<<18):
				t.Errorf("%s, at most %d bytes: %v", name, tt.most, err)
			}
		}
	}
}
