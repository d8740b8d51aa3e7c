package trace

import (
	"slices"

	"culprit/lang/cpp"
	"culprit/lang/syntax"
)

// Origins are the parts of a script's text that were preprocessed, in the order of the text.
type Origins []Origin

// An Origin is the output of the preprocessor for one part of a script.
type Origin struct {
	From   int // in the text of the script
	Source *cpp.Output
}

// of returns the part that contains a byte of the text, or nil when none was preprocessed.
func (o Origins) of(pos int) *Origin {
	for i := range slices.Backward(o) {
		if pos >= o[i].From {
			return &o[i]
		}
	}
	return nil
}

// locate returns diagnostics about the text with their positions in the user's files.
func (o Origins) locate(ds syntax.Diagnostics, file string) syntax.Diagnostics {
	if len(o) == 0 {
		return ds
	}
	out := make(syntax.Diagnostics, len(ds))
	for i, d := range ds {
		out[i] = d
		part := o.of(d.Pos)
		if part == nil || d.File != file || d.Code == syntax.LongText {
			continue
		}
		in := *d
		in.Pos -= part.From
		out[i] = part.Source.Diagnose(&in)
	}
	return out
}
