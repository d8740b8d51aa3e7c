package format

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"culprit/heapbound"
)

func buckets(t testing.TB) map[string]Buckets {
	out := map[string]Buckets{"quantize": Buckets{}}
	for _, c := range [][3]int64{{0, 100, 10}, {-10, 10, 1}, {0, 2, 1}, {-100, 1000, 7},
		{math.MinInt32, 2147000000, 65535}, {9, 12, 3}} {
		b, err := LquantizeBuckets(c[0], c[1], c[2])
		if err != nil {
			t.Fatal(c, err)
		}
		out[fmt.Sprint("lquantize", c)] = b
	}
	for _, c := range [][4]int64{{10, 0, 6, 10}, {10, 0, 6, 20}, {10, 2, 4, 5}, {10, 1, 18, 100},
		{2, 0, 62, 2}, {16, 0, 3, 1}, {10, 0, 2, 100}, {5, 3, 6, 25}, {65535, 0, 1, 65535}} {
		b, err := LlquantizeBuckets(c[0], c[1], c[2], c[3])
		if err != nil {
			t.Fatal(c, err)
		}
		out[fmt.Sprint("llquantize", c)] = b
	}
	return out
}

// TestBuckets compares Bucket with Bounds: every value lies within the bounds of its bucket,
// buckets are adjacent, and both bounds of a bucket belong to it.
func TestBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, b := range buckets(t) {
		t.Run(name, func(t *testing.T) {
			values := []int64{
				0,
				1,
				-1,
				math.MinInt64,
				math.MinInt64 + 1,
				math.MaxInt64,
				math.MaxInt64 - 1,
			}
			for range 4000 {
				values = append(values, int64(r.Uint64())>>r.IntN(64), r.Int64N(2000)-1000)
			}
			for _, v := range values {
				i := b.Bucket(v)
				if i < 0 || i >= b.Len() {
					t.Fatalf("%d: bucket %d of %d", v, i, b.Len())
				}
				if least, greatest, ok := b.Bounds(i); !ok || v < least || v > greatest {
					t.Fatalf("%d: bucket %d is %d to %d %v", v, i, least, greatest, ok)
				}
			}
			next, filled := int64(math.MinInt64), 0
			for i := range b.Len() {
				least, greatest, ok := b.Bounds(i)
				if !ok {
					continue
				}
				filled++
				if least != next || greatest < least {
					t.Fatalf("bucket %d is %d to %d, behind %d", i, least, greatest, next-1)
				}
				if b.Bucket(least) != i || b.Bucket(greatest) != i {
					t.Fatalf(
						"bucket %d is %d to %d, which count into %d and %d", i, least, greatest,
						b.Bucket(least), b.Bucket(greatest),
					)
				}
				next = greatest + 1
				if greatest == math.MaxInt64 {
					break
				}
			}
			if next != math.MinInt64 || filled < 3 {
				t.Fatalf("%d buckets end at %d", filled, next-1)
			}
		})
	}
}

func TestBucketsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []int64
		tag  string
	}{
		{[]int64{0, 100, 0}, "D_LQUANT_STEPTYPE"}, {[]int64{0, 100, -1}, "D_LQUANT_STEPTYPE"},
		{[]int64{0, 100, 65536}, "D_LQUANT_STEPVAL"},
		{[]int64{1 << 31, 100, 1}, "D_LQUANT_BASEVAL"}, {[]int64{0, 1 << 31, 1}, "D_LQUANT_LIMVAL"},
		{[]int64{100, 100, 1}, "D_LQUANT_MISMATCH"},
		{[]int64{0, 10, 11}, "D_LQUANT_STEPLARGE"}, {[]int64{0, 70000, 1}, "D_LQUANT_STEPSMALL"},
		{[]int64{1, 0, 6, 10}, "D_LLQUANT_FACTORVAL"},
		{[]int64{65536, 0, 6, 10}, "D_LLQUANT_FACTORVAL"},
		{[]int64{10, -1, 6, 10}, "D_LLQUANT_LMAGVAL"},
		{[]int64{10, 0, -1, 10}, "D_LLQUANT_HMAGVAL"}, {[]int64{10, 3, 2, 10}, "D_LLQUANT_HMAGVAL"},
		{[]int64{10, 0, 19, 10}, "D_LLQUANT_HMAGVAL"},
		{[]int64{10, 0, 65535, 10}, "D_LLQUANT_HMAGVAL"},
		{[]int64{10, 0, 6, 0}, "D_LLQUANT_STEPTYPE"},
		{[]int64{10, 0, 6, 65536}, "D_LLQUANT_STEPVAL"},
		{[]int64{10, 0, 6, 3}, "D_LLQUANT_STEPVAL"}, {[]int64{10, 0, 6, 15}, "D_LLQUANT_STEPVAL"},
		{[]int64{10, 0, 6, 30}, "D_LLQUANT_STEPVAL"},
		{[]int64{10, 1, 6, 200}, "D_LLQUANT_STEPVAL"},
	} {
		var err *StepError
		if len(c.args) == 3 {
			_, err = LquantizeBuckets(c.args[0], c.args[1], c.args[2])
		} else {
			_, err = LlquantizeBuckets(c.args[0], c.args[1], c.args[2], c.args[3])
		}
		if err == nil || err.Tag != c.tag {
			t.Errorf("%v: got %v, want %s", c.args, err, c.tag)
		}
	}
}

func dist(b Buckets, values ...int64) []int64 {
	d := make([]int64, b.Len())
	for _, v := range values {
		d[b.Bucket(v)]++
	}
	return d
}

// TestPictures checks widths: the column of values has 16 characters, bars at most 40, counts 9.
// Empty buckets are shown between others and one at each end.
func TestPictures(t *testing.T) {
	quant := Buckets{}
	lin, _ := LquantizeBuckets(0, 100, 10)
	ll, _ := LlquantizeBuckets(10, 0, 2, 10)
	fine, _ := LlquantizeBuckets(10, 0, 1, 20)
	weights := dist(quant)
	weights[quant.Bucket(1)], weights[quant.Bucket(2)] = 30, -10
	const head = "           value  ------------- Distribution ------------- count    \n"
	for _, c := range []struct {
		name string
		s    Style
		a    Aggregation
		want string
	}{
		{"quantize", Style{}, Aggregation{Func: Quantize, Rows: []AggregationRow{{Data: dist(quant, 1, 2, 3, 8)}}}, "\n" + head + `
               0 |                                         0        
               1 |@@@@@@@@@@                               1        
               2 |@@@@@@@@@@@@@@@@@@@@                     2        
               4 |                                         0        
               8 |@@@@@@@@@@                               1        
              16 |                                         0        

`[1:]},
		{"empty", Style{}, Aggregation{Func: Quantize, Rows: []AggregationRow{{Data: dist(quant)}}}, "\n" + head + `
              -1 |                                         0        
               0 |                                         0        
               1 |                                         0        

`[1:]},
		{"weights", Style{}, Aggregation{Func: Quantize, Rows: []AggregationRow{{Data: weights}}}, "\n" + head + `
               0                     |                     0        
               1                     |@@@@@@@@@@@@@@@      30       
               2                @@@@@|                     -10      
               4                     |                     0        

`[1:]},
		{"normal", Style{}, Aggregation{Func: Quantize, Normal: 2, Rows: []AggregationRow{{Data: weights}}}, "\n" + head + `
               0                     |                     0        
               1                     |@@@@@@@@@@@@@@@      15       
               2                @@@@@|                     -5       
               4                     |                     0        

`[1:]},
		{"lquantize", Style{}, Aggregation{Func: Lquantize, Buckets: lin, Rows: []AggregationRow{{Data: dist(lin, -1, 5, 95, 100, 1e9)}}}, "\n" + head + `
             < 0 |@@@@@@@@                                 1        
               0 |@@@@@@@@                                 1        
              10 |                                         0        
              20 |                                         0        
              30 |                                         0        
              40 |                                         0        
              50 |                                         0        
              60 |                                         0        
              70 |                                         0        
              80 |                                         0        
              90 |@@@@@@@@                                 1        
          >= 100 |@@@@@@@@@@@@@@@@                         2        

`[1:]},
		{"llquantize", Style{}, Aggregation{Func: Llquantize, Buckets: ll, Rows: []AggregationRow{{Data: dist(ll, 0, 8, 15, 1e6)}}}, "\n" + head + strings.ReplaceAll(`
              -1 |                                         0        
               0 |@@@@@@@@@@                               1        
               1 |                                         0        
               2 |                                         0        
               3 |                                         0        
               4 |                                         0        
               5 |                                         0        
               6 |                                         0        
               7 |                                         0        
               8 |@@@@@@@@@@                               1        
               9 |                                         0        
              10 |@@@@@@@@@@                               1        
              20 |                                         0        
              30 |                                         0        
              40 |                                         0        
              50 |                                         0        
              60 |                                         0        
              70 |                                         0        
              80 |                                         0        
              90 |                                         0        
             100 |                                         0        
             200 |                                         0        
             300 |                                         0        
             400 |                                         0        
             500 |                                         0        
             600 |                                         0        
             700 |                                         0        
             800 |                                         0        
             900 |                                         0        
         >= 1000 |@@@@@@@@@@                               1        

`, "\n", "\n")[1:]},
		// Twenty steps in 0 to 9 are halves: those without integers are omitted; at the ends the
		// next label outwards is used.
		{"halves", Style{}, Aggregation{Func: Llquantize, Buckets: fine, Rows: []AggregationRow{{Data: dist(fine, 9, 10)}}}, "\n" + head + `
               8 |                                         0        
               9 |@@@@@@@@@@@@@@@@@@@@                     1        
              10 |@@@@@@@@@@@@@@@@@@@@                     1        
              15 |                                         0        

`[1:]},
		{"zoom", Style{Zoom: true}, Aggregation{Func: Quantize, Rows: []AggregationRow{{Data: dist(quant, 1, 2, 2, 2)}}}, "\n" + head + `
               0 |                                         0        
               1 |@@@@@@@@@@@@@                            1        
               2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   3        
               4 |                                         0        

`[1:]},
		{"hist", Style{Hist: true}, Aggregation{Func: Count, Rows: []AggregationRow{{Key: []Value{str("a")}, Data: []int64{1}}, {Key: []Value{str("b")}, Data: []int64{3}}}}, `
              key  ------------- Distribution ------------- count    
                a |@@@@@@@@@@                               1        
                b |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3        
`},
		{"pack", Style{Pack: true, Encoding: "ascii"}, Aggregation{Func: Quantize, Rows: []AggregationRow{{Key: []Value{str("a")}, Data: dist(quant, 1, 2, 2, 2)}, {Key: []Value{str("b")}, Data: dist(quant, 4)}}}, `
              key  min .-----. max  | count
                b    0 :   X : 8    | 1
                a    0 : xx  : 8    | 4
`},
		{"utf8", Style{Encoding: "utf8"}, Aggregation{Func: Quantize, Rows: []AggregationRow{{Data: dist(quant, 1, 2, 2)}}}, "\n" + head + `
               0 |                                         0        
               1 |█████████████▎                           1        
               2 |██████████████████████████▋              2        
               4 |                                         0        

`[1:]},
	} {
		got := string(c.s.Aggregations(nil, []*Aggregation{&c.a}))
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestTables(t *testing.T) {
	key := func(vs ...Value) []Value { return vs }
	count := &Aggregation{Name: "a", Func: Count, Rows: []AggregationRow{
		{
			Key:  key(str("bash"), i32(2)),
			Data: []int64{10},
		}, {Key: key(str("cat"), i32(1)), Data: []int64{2}},
		{Key: key(str("awk"), i32(3)), Data: []int64{10}}}}
	got := string((&Style{}).Table(nil, count))
	want := `
  cat                                                       1                2
  awk                                                       3               10
  bash                                                      2               10
`
	if got != want || !count.Printed {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := string((&Style{}).Aggregations(nil, []*Aggregation{count})); got != "" {
		t.Errorf("printed again: %s", got)
	}
	for _, c := range []struct {
		s    Style
		want string
	}{
		{Style{}, "cat awk bash"}, {Style{SortRev: true}, "bash awk cat"},
		{Style{SortKey: true}, "awk bash cat"},
		{Style{SortKey: true, SortKeyPos: 1}, "cat bash awk"},
		{Style{SortKey: true, SortKeyPos: 9}, "awk bash cat"},
		{Style{Rows: 2}, "awk bash"}, {Style{Rows: 2, SortRev: true}, "bash awk"},
		{Style{Rows: 1, SortKey: true}, "bash"}, {Style{Rows: 3}, "cat awk bash"},
	} {
		f, _ := Parse("%s ")
		got, err := c.s.Printa(nil, f, count)
		if err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%+v: got %q %v, want %q", c.s, got, err, c.want)
		}
	}

	// Several side by side: a key that one lacks has 0 there; rows are sorted by the first value.
	sum := &Aggregation{
		Name: "b",
		Func: Sum,
		Rows: []AggregationRow{
			{Key: key(str("dd"), i32(9)), Data: []int64{-5}},
			{Key: key(str("cat"), i32(1)), Data: []int64{7}},
		},
	}
	f, _ := Parse("%s %d: %@d %@d %@d\n")
	joined, err := (&Style{}).Printa(nil, f, count, sum)
	if want := "dd 9: 0 -5 -5\ncat 1: 2 7 7\nawk 3: 10 0 0\nbash 2: 10 0 0\n"; err != nil ||
		string(joined) != want {
		t.Errorf("joined: got %q %v, want %q", joined, err, want)
	}
	joined, _ = (&Style{SortPos: 1}).Printa(nil, f, count, sum)
	if want := "dd 9: 0 -5 -5\nawk 3: 10 0 0\nbash 2: 10 0 0\ncat 1: 2 7 7\n"; string(
		joined,
	) != want {
		t.Errorf("aggsortpos: got %q, want %q", joined, want)
	}
	got = string((&Style{}).Table(nil, count, sum))
	if want := "\n  dd                                                        9                0               -5\n"; !strings.HasPrefix(
		got, want,
	) {
		t.Errorf("joined table: got %q, want %q", got, want)
	}

	// Keys in tables: integers of 1 and 2 bytes are unsigned, all are as wide as their size needs;
	// text has a width of 50.
	keys := &Aggregation{
		Func: Max,
		Rows: []AggregationRow{
			{
				Key: key(
					IntOf(-1, 1, true), IntOf(-1, 2, true), i32(-1), IntOf(-1, 8, true),
					PlaceOf("vmlinux`f", 7), str(""),
				),
				Data: []int64{3},
			},
		},
	}
	got = string((&Style{}).Aggregations(nil, []*Aggregation{keys}))
	if want := " 255 65535       -1               -1  vmlinux`f" + strings.Repeat(" ", 41+52) +
		"                3\n"; got != want {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	stack := &Aggregation{
		Func: Count,
		Rows: []AggregationRow{
			{
				Key:  key(StackOf([]string{"vmlinux`f+0x1", "vmlinux`g"}, []uint64{1, 2})),
				Data: []int64{3},
			},
		},
	}
	got = string((&Style{}).Aggregations(nil, []*Aggregation{stack}))
	if want := "\n              vmlinux`f+0x1\n              vmlinux`g\n                3\n"; got != want {
		t.Errorf("stack: got %q, want %q", got, want)
	}
	cpus := &Aggregation{
		Func: Count,
		Rows: []AggregationRow{{Data: []int64{3}, PerCPU: [][]int64{{1}, {2}}}},
	}
	got = string((&Style{PerCPU: true}).Aggregations(nil, []*Aggregation{cpus}))
	if want := "                 3\n    [CPU 0]                1\n    [CPU 1]                2\n"; got != want[1:] {
		t.Errorf("aggpercpu: got %q, want %q", got, want)
	}
}

func TestTruncateAndClear(t *testing.T) {
	make := func() *Aggregation {
		a := &Aggregation{Func: Min}
		for i, n := range []int64{5, 3, 9, 3, 1} {
			a.Rows = append(a.Rows, AggregationRow{Key: []Value{i32(int64(i))}, Data: []int64{n}})
		}
		return a
	}
	f, _ := Parse("%d=%@d ")
	for _, c := range []struct {
		n    int64
		want string
	}{{2, "0=5 2=9 "}, {3, "3=3 0=5 2=9 "}, {-3, "4=1 1=3 3=3 "}, {0, ""},
		{99, "4=1 1=3 3=3 0=5 2=9 "}, {math.MinInt64, "4=1 1=3 3=3 0=5 2=9 "}} {
		a := make()
		a.Truncate(c.n)
		if got, err := (&Style{}).Printa(nil, f, a); err != nil || string(got) != c.want {
			t.Errorf("trunc %d: got %q %v, want %q", c.n, got, err, c.want)
		}
	}
	a := make()
	a.Clear()
	if len(a.Rows) != 5 || a.Rows[0].Data[0] != math.MaxInt64 {
		t.Errorf("cleared: %+v", a.Rows)
	}
}

// TestDeviation compares the 128-bit arithmetic with math/big.
func TestDeviation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		n := 1 + r.IntN(50)
		shift := r.IntN(63)
		sum, squares := int64(0), new(big.Int)
		for range n {
			v := int64(r.Uint64()) >> shift / int64(n)
			sum += v
			squares.Add(squares, new(big.Int).Mul(big.NewInt(v), big.NewInt(v)))
		}
		low := new(big.Int).And(squares, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		high := new(big.Int).Rsh(squares, 64).Uint64()
		got := deviation([]int64{int64(n), sum, int64(low), int64(high)}, 1)
		mean := new(big.Int).Abs(big.NewInt(sum / int64(n)))
		want := new(big.Int).Div(squares, big.NewInt(int64(n)))
		want.Sub(want, mean.Mul(mean, mean))
		if want.Sign() < 0 {
			want.SetInt64(0)
		}
		if want.Sqrt(want); got != want.Uint64() {
			t.Fatalf("%d values: got %d, want %d", n, got, want)
		}
	}
	if got := deviation([]int64{2, 300, 100*100 + 200*200, 0}, 10); got != 5 {
		t.Errorf("normalized by 10: %d", got)
	}
}

func TestPrint(t *testing.T) {
	integer := &Shape{Form: FormInt, Name: "int", Size: 4, Signed: true}
	char := &Shape{Form: FormInt, Name: "char", Size: 1, Signed: true, Char: true}
	inner := &Shape{Form: FormStruct, Name: "struct", Size: 8, Members: func() []Piece {
		return []Piece{{"p", 0, 0, &Shape{Form: FormPointer, Name: "void *", Size: 8}}}
	}}
	outer := &Shape{Form: FormStruct, Name: "struct s", Size: 32, Members: func() []Piece {
		return []Piece{
			{"a", 0, 0, integer},
			{"b", 32, 0, &Shape{Form: FormArray, Name: "char [4]", Size: 4, Elem: char, Len: 4}},
			{"in", 64, 0, inner},
			{"z", 128, 0, integer},
			{"f", 160, 3, integer},
			{"g", 163, 5, &Shape{Form: FormInt, Name: "unsigned int", Size: 4}},
			{
				"e",
				192,
				0,
				&Shape{Form: FormEnum, Name: "enum e", Size: 4, Values: []Named{{"ONE", 1}}},
			},
		}
	}}
	data := []byte{
		1,
		0,
		0,
		0,
		'h',
		'i',
		0,
		'x',
		0x10,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x8d,
		0,
		0,
		0,
		1,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
	}
	pad := strings.Repeat(" ", 44)
	lines := func(s ...string) string {
		return "0x1000 = *\n" + pad + strings.Join(s, "\n"+pad) +
			"\n"
	}
	got := string((&Style{}).Print(nil, 0x1000, outer, data, 99))
	want := lines(
		"(struct s) {", " .a = (int)1,", " .b = (char [4]) [", "  (char)'h',", "  (char)'i',",
		" ],", " .in = (struct) {", "  .p = (void *)0x10,", " },", " .f = (int)-3,",
		" .g = (unsigned int)17,", " .e = (enum e)ONE,", "}",
	)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = string((&Style{}).Print(nil, 0x1000, outer, data, 16))
	want = lines(
		"(struct s) {", " .a = (int)1,", " .b = (char [4]) [", "  (char)'h',", "  (char)'i',",
		" ],", " .in = (struct) {", "  .p = (void *)0x10,", " ...", " },", "}",
	)
	if got != want {
		t.Errorf("limited: got\n%s\nwant\n%s", got, want)
	}
	if got := string((&Style{}).Print(nil, 0, outer, nil, 16)); got != "(nil) = *\n"+pad+"...\n" {
		t.Errorf("nothing: %q", got)
	}
}

// FuzzAggregation checks that any counts in any buckets make a picture of at most as many lines as
// there are buckets, and that sorting keeps the number of rows.
func FuzzAggregation(f *testing.F) {
	f.Add(uint8(0), int64(0), int64(10), int64(1), int64(5), []byte{1, 2, 3}, uint64(2), uint16(0))
	f.Add(
		uint8(2), int64(10), int64(0), int64(6), int64(20), []byte{200, 0, 255}, uint64(0),
		uint16(0xffff),
	)
	heapbound.Fuzz(f,
		func(t *testing.T, function uint8, p, q, r, steps int64, data []byte, normal uint64,
			options uint16) {
			a := &Aggregation{Func: Function(function % 9), Normal: normal}
			var err *StepError
			switch a.Func {
			case Lquantize:
				a.Buckets, err = LquantizeBuckets(p, q, r)
			case Llquantize:
				a.Buckets, err = LlquantizeBuckets(p, q, r, steps)
			}
			if err != nil || a.size() > 5000 {
				return
			}
			row := AggregationRow{Key: []Value{TextOf(string(data), 256), i32(p)}}
			for i, c := range data {
				row.Data = append(row.Data, int64(int8(c))<<(i%57))
			}
			a.Rows = []AggregationRow{
				row,
				{Key: row.Key, Data: nil},
				{Key: []Value{BytesOf(data), IntOf(q, 8, false)}, Data: []int64{p, q, r, steps}},
			}
			s := Style{
				SortKey:    options&1 != 0,
				SortRev:    options&2 != 0,
				Zoom:       options&4 != 0,
				Hist:       options&8 != 0,
				Pack:       options&16 != 0,
				RawBytes:   options&32 != 0,
				SortKeyPos: int(options >> 10),
			}
			if options&64 != 0 {
				s.Encoding = "utf8"
			}
			out := s.Aggregations(nil, []*Aggregation{a})
			if lines := strings.Count(string(out), "\n"); lines < 3 ||
				lines > 3*(a.size()+2*len(data)+100) {
				t.Fatalf("%d lines", lines)
			}
			form, _ := Parse("%s %@d\n")
			if _, err := s.Printa(nil, form, a, a); err != nil && a.Rows[2].Key[0].Kind != Raw {
				t.Fatal(err)
			}
			a.Truncate(p)
			if len(a.Rows) > 3 {
				t.Fatal("more rows")
			}
			a.Clear()
		},
	)
}
