package store

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestKeySorter: sortKeys and mergeKeys return the same key table for one block, also when the
// buffers are reused.
func TestKeySorter(t *testing.T) {
	var r keySorter
	rnd := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 0, 400)
	for i := range cap(texts) {
		// some texts occur twice
		texts = append(texts, fmt.Sprint([]string{"", "eth", "10.0.0."}[i%3], rnd.IntN(150)))
	}
	for range 200 {
		width := rnd.IntN(5)
		b := &block{texts: texts, rows: rnd.IntN(300)}
		if width == 0 {
			b.rows = min(b.rows, 1)
		}
		if rnd.IntN(4) == 0 {
			b.texts = append([]string{"first"}, texts[:200]...)
		}
		for range b.rows * width {
			b.keys = append(b.keys, uint32(rnd.IntN(1+rnd.IntN(len(b.texts)))))
		}
		want, wantFrom := mergeKeys(make([]bool, width), []*block{b})
		got, from := r.sortKeys(width, b)
		if string(got.append(nil)) != string(want.append(nil)) {
			t.Fatalf("%d rows of %d words: another keyring", b.rows, width)
		}
		if len(from)+len(wantFrom) > 0 && !reflect.DeepEqual(from, wantFrom) {
			t.Fatalf(
				"%d rows of %d words: rows come from %v, want %v", b.rows, width, from, wantFrom,
			)
		}
		if rnd.IntN(10) == 0 {
			r.forget()
		}
	}
}
