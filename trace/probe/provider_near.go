package probe

import (
	"cmp"
	"slices"
	"strings"
)

// nearEvents returns up to three tracepoints that have words in common with the function of a
// description, or "". They are the alternative where functions can't be probed.
func (k *kernelInfo) nearEvents(w *want) string {
	events, err := k.TraceEvents()
	if err != nil || w.function.any() {
		return ""
	}
	type near struct {
		name  string
		score int
	}
	var list []near
	asked := wordsOf(w.function.text)
	for _, event := range events {
		if eventless(event.Subsystem) {
			continue
		}
		if score := likeness(asked, wordsOf(event.Name)); score > 0 {
			list = append(list, near{"sdt:" + event.Subsystem + "::" + event.Name, score})
		}
	}
	slices.SortStableFunc(
		list, func(a, b near) int { return cmp.Or(b.score-a.score, len(a.name)-len(b.name)) },
	)
	var names []string
	for _, n := range list[:min(3, len(list))] {
		if n.score*2 < list[0].score {
			break
		}
		names = append(names, n.name)
	}
	return strings.Join(names, " ")
}

// wordsOf splits a name at its underscores and drops words that many names have.
func wordsOf(name string) []string {
	list := strings.FieldsFunc(
		name, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') },
	)
	return slices.DeleteFunc(list, func(word string) bool {
		switch word {
		case "do", "sys", "x64", "se", "ksys", "get", "set", "to", "of", "in", "from", "kernel":
			return true
		}
		return len(word) < 2
	})
}

// likeness returns the number of letters of the words that two names have in common. The first
// word, usually the subsystem, counts twice.
func likeness(a, b []string) int {
	score := 0
	for i, word := range a {
		j := slices.Index(b, word)
		if j < 0 {
			continue
		}
		score += len(word)
		if i == 0 && j == 0 {
			score += len(word)
		}
	}
	return score
}
