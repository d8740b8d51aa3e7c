package profile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// never is a context without an end.
//
// table: never changed
var never = context.Background()

// repeated is an input: head, n times what each returns, tail.
func repeated(head string, n int, each func(i int) string, tail string) io.Reader {
	i, left := 0, head
	return bufio.NewReaderSize(readerFunc(func(b []byte) (int, error) {
		for left == "" {
			switch {
			case i < n:
				left = each(i)
			case i == n:
				left = tail + " "
			default:
				return 0, io.EOF
			}
			i++
		}
		k := copy(b, left)
		left = left[k:]
		return k, nil
	}), 64<<10)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// gzipped returns an input packed by gzip.
func gzipped(t *testing.T, in io.Reader) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, in); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// field returns a field of a protobuf message that has a length.
func field(number int, b []byte) []byte {
	out, n := []byte{byte(number<<3 | 2)}, len(b)
	for ; n > 127; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(append(out, byte(n)), b...)
}

// pprofOf returns a profile of pprof with the given samples and locations.
func pprofOf(more ...[]byte) io.Reader {
	b := field(1, []byte{8, 1, 16, 2})
	for _, s := range []string{"", "samples", "count", "f"} {
		b = append(b, field(6, []byte(s))...)
	}
	b = append(b, field(5, []byte{8, 1, 16, 3})...)
	return bytes.NewReader(append(b, bytes.Join(more, nil)...))
}

func fixed(text string) func(int) string { return func(int) string { return text } }

// Small inputs of each format that expand to much are refused at the limit, and reading them takes
// not much more than it.
func TestReadersAreBounded(t *testing.T) {
	const limit, many = 8 << 20, 1 << 19
	line, ids := field(4, []byte{8, 1}), bytes.Repeat([]byte{1}, many)
	inlined := field(4, append([]byte{8, 1}, bytes.Repeat(line, many)...))
	short := field(4, append([]byte{8, 1}, bytes.Repeat(line, 100)...))
	branch := func(i int) string {
		return fmt.Sprintf("%d;%s 1\n", i, strings.Repeat("a;", 200)+"b")
	}
	for name, in := range map[string]io.Reader{
		"pprof, inlined lines": pprofOf(inlined, field(2, append(field(1, ids), 16, 1))),
		"pprof, locations":     pprofOf(short, field(2, append(field(1, ids), 16, 1))),
		"pprof, samples": pprofOf(short,
			bytes.Repeat(field(2, append(field(1, []byte{1}), 16, 1)), many)),
		"pprof, labels": pprofOf(short,
			field(2, append(append(field(1, []byte{1}), 16, 1),
				bytes.Repeat(field(3, []byte{8, 1, 16, 1}), many)...))),
		"folded, stacks that share nothing": repeated("", many, branch, ""),
		"folded, packed twice":              gzipped(t, gzipped(t, repeated("", many/16, branch, ""))),
		"folded, names": repeated("", many,
			func(i int) string { return fmt.Sprintf("%d;%0100d 1\n", i, i) }, ""),
		"perf script": repeated("", many, func(i int) string {
			return fmt.Sprintf("a 1 [000] 1.0: 1 cycles:\n\t1 f%d (x)\n\t2 g%d (y)\n\n", i, i)
		}, ""),
		"DTrace": repeated("", many,
			func(i int) string { return fmt.Sprintf("  a`f%d+0x1\n  a`g%d+0x1\n  1\n\n", i, i) }, ""),
		"speedscope, empty samples": repeated(
			`{"$schema":"","shared":{"frames":[]},"profiles":[{"type":"sampled","samples":[`, many,
			fixed("[],"), `[]]}]}`),
		"speedscope, frames that are null": repeated(`{"$schema":"","profiles":[],`+
			`"shared":{"frames":[`, many, fixed("null,"), `null]}}`),
		"d3": repeated(`{"name":"a","value":1,"children":[`, many, fixed("null,"), `null]}`),
		"Firefox, rows": repeated(`{"meta":{},"libs":[],"threads":[{"samples":{"schema":`+
			`{"stack":0},"data":[`, many, fixed("[],"), `[]]}}]}`),
		"Firefox, columns": repeated(`{"meta":{},"threads":[{"samples":{"stack":[`, many,
			fixed("0,"), `0]}}]}`),
		"Firefox, threads": repeated(`{"meta":{},"stackTable":0,"threads":[`, many,
			fixed(`{},`), `{}]}`),
		"Chrome, events": repeated(`[`, many, func(i int) string {
			return fmt.Sprintf(`{"ph":"X","ts":%d,"dur":1},`, i)
		}, `{}]`),
		"Chrome, threads": repeated(`[`, many, func(i int) string {
			return fmt.Sprintf(`{"ph":"X","tid":%d},`, i)
		}, `{}]`),
		"Chrome, pieces of V8": repeated(
			`[{"ph":"P","name":"Profile","args":{"data":{"cpuProfile":{"nodes":[`, many,
			fixed("null,"), `null]}}}}]`),
		"V8, nodes": repeated(`{"hitCount":1,"functionName":1,"nodes":[`, many, fixed("null,"),
			`null]}`),
		"V8, old nodes": repeated(`{"hitCount":1,"functionName":1,"head":{"children":[`, many,
			fixed("null,"), `null]}}`),
		"V8's heap": repeated(`{"callFrame":1,"selfSize":1,"head":{"children":[`, many,
			fixed("{},"), `{}]}}`),
		"Pyroscope": repeated(`{"flamebearer":{"names":["a"],"levels":[`, many, fixed("[],"),
			`[]]}}`),
		"stackprof": repeated(`{"frames":{},"raw":[`, many, fixed("0,"), `0]}`),
		"bpftrace's JSON": repeated(`{"type": "map", "data": {"@": {`, many, func(i int) string {
			return fmt.Sprintf(`"\n %d\n":1,`, i)
		}, `"\n a\n":1}}}`),
		"xctrace": repeated("<?xml version=\"1.0\"?><trace-query-result><node>", many,
			func(i int) string {
				return fmt.Sprintf(`<row><backtrace id="%d"><frame id="%d" name="%d"/>`+
					`</backtrace></row>`, i, i, i)
			}, "</node></trace-query-result>"),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Read(t.Context(), in, "", Options{Memory: limit})
			runtime.ReadMemStats(&after)
			var over *MemoryError
			if !errors.As(err, &over) || over.Limit != limit ||
				!strings.Contains(err.Error(), "more than 8 MB") {
				t.Errorf("%v", err)
			}
			// Text that was read whole, twice, and buffers that doubled.
			if took := after.TotalAlloc - before.TotalAlloc; took > 12*limit {
				t.Errorf("%d MB were allocated", took>>20)
			}
		})
	}
}

// The profile of 5 kB that expands to 10^12 frames is cut at the highest depth, within the memory
// of its own lists.
func TestInlinedBomb(t *testing.T) {
	in, err := os.ReadFile("testdata/pprof/inlined-bomb.gz")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Read(t.Context(), bytes.NewReader(in), "", Options{Memory: 64 << 20})
	var over *MemoryError
	if !errors.As(err, &over) {
		t.Errorf("with 64 MB: %v", err)
	}
	tree, err := Read(t.Context(), bytes.NewReader(in), "", Options{Memory: 1 << 30})
	if err != nil || tree.Depth != MaxDepth ||
		!strings.Contains(strings.Join(tree.Notes, ""), "1 stack is deeper than 65,536 frames") {
		t.Errorf("with 1 GB: %v", err)
	}
}

// What is charged for a profile that is no attack is at least what it retains, and at most a few
// times that.
func TestChargesAreNearTheHeap(t *testing.T) {
	text := repeated("", 50_000, func(i int) string {
		return fmt.Sprintf("main;run;handle_%d;work_%d;inner_%d %d\n", i%7, i%300, i%5000, i%90+1)
	}, "")
	tree, err := Read(t.Context(), text, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var asPProf, asScope, asFolded bytes.Buffer
	if err := errors.Join(WritePProf(&asPProf, tree), WriteSpeedscope(&asScope, tree, ""),
		WriteFolded(&asFolded, tree)); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]*bytes.Buffer{
		"pprof": &asPProf, "speedscope": &asScope, "folded": &asFolded,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t.Context(), 0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tree, err := metered(m, in, Options{meter: m})
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			least := int64(24*tree.Len() + 64*len(tree.Functions))
			most := 3 * int64(after.TotalAlloc-before.TotalAlloc)
			if m.used < least || m.used > most {
				t.Errorf("%d bytes are charged, not from %d to %d", m.used, least, most)
			}
		})
	}
}

// Reading ends soon after its context, also while no more input is needed.
func TestReadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, strings.NewReader("a 1\n"), "", Options{}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("before the first byte: %v", err)
	}
	// A few samples of many inlined lines take much time, and no memory.
	line := field(4, []byte{8, 1})
	inlined := field(4, append([]byte{8, 1}, bytes.Repeat(line, MaxDepth)...))
	all := pprofOf(inlined, bytes.Repeat(field(2, append(field(1, []byte{1}), 16, 1)), 1<<20))
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	_, err := Read(ctx, readerFunc(func(b []byte) (int, error) {
		n, err := all.Read(b)
		if errors.Is(err, io.EOF) {
			cancel()
		}
		return n, err
	}), "", Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("while expanding: %v", err)
	}
}
