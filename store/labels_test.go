package store

import (
	"fmt"
	"testing"

	"culprit/measure"
)

// All batches of a source share the words of its labels, whatever length the dictionary had when
// each was made.
func TestDictionariesShareWords(t *testing.T) {
	w := newWindow(1, 0)
	in := &input{}
	ask := func(labels []string) *labelWords {
		in.words = w.wordsOf(labels)
		for l := range labels {
			n, ok := in.word(w, labels, measure.Label(l), true)
			if !ok || w.words.texts[n] != labels[l] {
				t.Fatalf("label %d is %q, want %q", l, w.words.texts[n], labels[l])
			}
		}
		return in.words
	}
	var labels []string
	grow := func(n int) []string {
		for range n {
			labels = append(labels, fmt.Sprint("word", len(labels)))
		}
		return labels
	}
	first := ask(grow(100))
	for range 50 {
		before := labels
		if ask(grow(37)) != first || ask(before) != first {
			t.Fatal("a dictionary that grew is another one")
		}
	}
	if len(w.labels) != 1 {
		t.Errorf("%d dictionaries are known", len(w.labels))
	}
	other := []string{"another", "source's"}
	if ask(other) == first || ask(labels) != first {
		t.Error("dictionaries of two sources are taken for one")
	}
	other = []string{"another", "word"} // a new dictionary
	ask(other)
	for i := range 100 {
		ask([]string{fmt.Sprint("of tick ", i), "word0"})
		w.last++
		ask(labels)
	}
	if len(w.labels) > maxLabelWords || ask(labels) != first {
		t.Errorf(
			"%d dictionaries are known, the one in use among them: %t", len(w.labels),
			ask(labels) == first,
		)
	}
	reused := []string{"one", "two"}
	ask(reused)
	reused[1] = "three" // no source does that
	ask(reused)
}
