package measure

import (
	"slices"
	"strings"
)

// The statistics that a profile of a time is made of.
const (
	StackSamples StatID = "cpu.stack.samples" // by process, pid, cpu, kernel and user
	StackRate    StatID = "cpu.stack.rate"    // by cpu: samples that are due each second
)

// Folded gives the text of the stack that ends in a frame: its functions from the outermost to the innermost, parted by semicolons, as flame graphs are
// drawn of. A semicolon in a name becomes a colon. "" for a frame that is not there and for the empty stack.
func FoldedStack(frames []Frame, at Label) string {
	return foldedStack(frames, at, nil)
}

// folded is Folded with names that name gives; nil: functions alone.
func foldedStack(frames []Frame, at Label, name func(*Frame) string) string {
	var names []string
	for i := int64(at); i >= 0 && i < int64(len(frames)) && len(names) <= len(frames); i = int64(frames[i].Parent) {
		text := frames[i].Symbol
		if name != nil && text != "" {
			text = name(&frames[i])
		}
		if text != "" {
			names = append(names, strings.ReplaceAll(text, ";", ":"))
		}
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

// Worded gives the answer with each stack as a word, its Folded text, with what name calls a frame, or with functions alone where it is nil: for those who show rows and draw no stacks. An answer without stacks is
// given as it is; of another the series are copies, their values are not.
func (a *Answer) StacksAsText(name func(*Frame) string) *Answer {
	if !slices.Contains(a.Stacks, true) {
		return a
	}
	out := *a
	out.Stacks, out.Frames = nil, nil
	out.SetColumn(nil, 0)
	out.Labels = slices.Clone(a.Labels)
	words := map[Label]Label{}
	out.Series = slices.Clone(a.Series)
	for i := range out.Series {
		s := &out.Series[i]
		s.Key = slices.Clone(s.Key)
		for k, l := range s.Key {
			if !a.Stacks[k] {
				continue
			}
			w, ok := words[l]
			if !ok {
				w = Label(len(out.Labels))
				words[l] = w
				out.Labels = append(out.Labels, foldedStack(a.Frames, l, name))
			}
			s.Key[k] = w
		}
	}
	return &out
}
