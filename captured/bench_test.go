package captured

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// BenchmarkRead reads 10,000 lines: prose, and rows of mpstat.
func BenchmarkRead(b *testing.B) {
	var prose strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&prose, "line %d of a log: it has words and the number %d, and no table\n", i,
			7*i)
	}
	rows, err := os.ReadFile("testdata/linux-mpstat.txt")
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct{ name, text string }{
		{"prose", prose.String()},
		{"rows", strings.Repeat(string(rows), 10_000/strings.Count(string(rows), "\n"))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.text)))
			for b.Loop() {
				_, _ = Read("log", bb.text+"CPU %usr %sys %idle\n0 1.0 1.0 98.0\n")
			}
		})
	}
}
