package store

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"culprit/heapbound"
)

func sameBits(a, b []float64) int {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return i
		}
	}
	return -1
}

func randomColumn(r *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	kind, v := r.IntN(8), float64(r.IntN(1e6))
	gaps, lost := r.IntN(3) == 0, r.IntN(4) == 0
	here := true
	for i := range out {
		switch kind {
		case 0:
		case 1:
			v += float64(r.IntN(2000) - 1000)
		case 2:
			v = r.NormFloat64()
		case 3:
			if r.IntN(12) == 0 {
				v = float64(r.IntN(100)) * 4096
			}
		case 4:
			v = float64(r.IntN(1000)) / 100
		case 5:
			v = []float64{
				0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1 << 53, -1 << 60,
				math.SmallestNonzeroFloat64, math.MaxFloat64,
			}[r.IntN(8)]
		case 6:
			v = float64(r.Int64() - 1<<62)
		case 7:
			if r.IntN(20) == 0 {
				v = r.Float64()
			}
		}
		out[i] = v
		if gaps && r.IntN(9) == 0 {
			here = !here
		}
		if !here {
			out[i] = absent()
		} else if lost && r.IntN(7) == 0 {
			out[i] = unknown()
		}
	}
	return out
}

func TestColumnsAreLossless(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c codec
	g := &packer{codec: &c}
	for range 300 {
		n := 1 + r.IntN(400)
		var want [][]float64
		for range r.IntN(40) {
			col := randomColumn(r, n)
			want = append(want, col)
			g.packRow(col)
		}
		rows := g.rows
		back := &group{}
		err := back.open(&c, g.finish(), func([]rowHead) int { return n })
		if err != nil || len(back.heads) != rows {
			t.Fatalf("%v, %d rows of %d", err, len(back.heads), rows)
		}
		out := make([]float64, n)
		for _, i := range r.Perm(rows) {
			if err := back.row(i, out); err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
			if at := sameBits(want[i], out); at >= 0 {
				t.Fatalf(
					"row %d tick %d of %d: %v, want %v (mode %d)", i, at, n, out[at], want[i][at],
					back.heads[i].flags,
				)
			}
		}
	}
}

func FuzzGroup(f *testing.F) {
	var c codec
	g := &packer{codec: &c}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		for range 8 {
			g.packRow(randomColumn(r, 60))
		}
		f.Add(append([]byte(nil), g.finish()...))
	}
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		back := &group{}
		err := back.open(&c, b, func([]rowHead) int { return 60 })
		if err != nil {
			return
		}
		out := make([]float64, 60)
		for i := range min(len(back.heads), 100) {
			_ = back.row(i, out)
		}
	})
}

// A column packed from its runs has the same bytes as one packed tick by tick.
func TestRunsArePackedAsTheirTicks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	var c codec
	one, other := packer{codec: &c}, packer{codec: &c}
	packed := 0
	for range 500 {
		ticks, by, many := 1+rnd.IntN(
			400,
		), []float64{1, 4096, 0.01, rnd.Float64()}[rnd.IntN(4)], 1+rnd.IntN(
			100,
		)
		var col runs
		dense := make([]float64, ticks)
		for i := range dense {
			if i == 0 || rnd.IntN(many) == 0 {
				if v := float64(rnd.IntN(300)-100) * by; i == 0 || v != dense[i-1] {
					col.starts, col.values = append(col.starts, uint16(i)), append(col.values, v)
				}
			}
			dense[i] = col.values[len(col.values)-1]
		}
		n, ok := one.packRuns(&col, ticks)
		if !ok {
			continue
		}
		packed++
		if m := other.packRow(dense); m != n {
			t.Fatal(n, m)
		}
		if a, b := one.finish(), other.finish(); !bytes.Equal(a, b) {
			t.Fatalf("%v from %v:\n%x\n%x", col.values, col.starts, a, b)
		}
	}
	if packed < 200 {
		t.Error(packed)
	}
}
