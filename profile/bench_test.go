package profile

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// perfScript returns perf script output with the given number of samples, whose stacks repeat.
func perfScript(samples int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var stacks []string
	for range 1000 {
		var b strings.Builder
		for range 10 + r.IntN(30) {
			f := r.IntN(r.IntN(3000) + 1)
			fmt.Fprintf(
				&b,
				"\t%16x ns::tcp_recv_%d::run(std::vector<int> const&)+0x%x (/usr/lib/x86_64-linux-gnu/libthing.so.1.2)\n",
				0x7f0000000000+f*64+r.IntN(4)*16, f, r.IntN(4)*16,
			)
		}
		stacks = append(stacks, b.String()+"\n")
	}
	var out bytes.Buffer
	for i := range samples {
		fmt.Fprintf(&out, "nginx %5d [%03d] %d.%06d:     250000 cpu-clock:pppH: \n%s", 1000+i%5,
			i%8, i/100, i%100*10000, stacks[r.IntN(len(stacks))])
	}
	return out.Bytes()
}

func BenchmarkPerf(b *testing.B) {
	text := perfScript(20_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Read(never, bytes.NewReader(text), "", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// distinct returns folded stacks without repetition.
func distinct(stacks, depth int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var out bytes.Buffer
	for i := range stacks {
		out.WriteString("program")
		f := 0
		for d := range depth/2 + r.IntN(depth/2) {
			c := 0
			for c < 6 && r.IntN(5) == 0 {
				c++
			}
			f = (f*31 + d*7 + c*613 + 1) % 4000
			fmt.Fprintf(&out, ";ns::skb_queue_%d::run(std::vector<int> const&)", f)
		}
		fmt.Fprintf(&out, ";leaf_%d %d\n", i, 1+r.IntN(20))
	}
	return out.Bytes()
}

func BenchmarkFolded(b *testing.B) {
	for name, text := range map[string][]byte{"100000x24": distinct(100_000, 24), "1000x1000": distinct(1000, 1000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Read(never, bytes.NewReader(text), "", Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSVG(b *testing.B) {
	t, err := Read(never, bytes.NewReader(distinct(100_000, 24)), "", Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := WriteSVG(io.Discard, t, Picture{}); err != nil {
			b.Fatal(err)
		}
	}
}
