package mcp

import (
	"bytes"
	"context"

	"culprit/measure"
	"culprit/profile"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type profileArgs struct {
	BeforeFrom string `json:"before_from"`
	BeforeTo   string `json:"before_to"`
	AfterFrom  string `json:"after_from"`
	AfterTo    string `json:"after_to,omitempty"`
	Process    string `json:"process,omitempty"`
	Rows       int    `json:"rows,omitempty"`
}

// addProfileDiff adds the tool profile_diff.
func (s *server) addProfileDiff() {
	add(s, "profile_diff", "Compare CPU profiles", "Compare the CPU samples of two recorded "+
		"times per CPU-second: the functions that use more or less, their share of the change.",
		func(schema *jsonschema.Schema) {
			boundTexts(schema)
			bound(schema, "rows", 1, 200, defaultRows)
		}, s.profileDiff)
}

func (s *server) profileDiff(ctx context.Context, in profileArgs) (*sdk.CallToolResult, error) {
	var part profile.Part
	if in.Process != "" {
		part.Processes = []string{in.Process}
	}
	before, err := s.samples(ctx, part, times{
		From: in.BeforeFrom, To: in.BeforeTo, Names: [2]string{"before_from", "before_to"},
	})
	if err != nil {
		return nil, err
	}
	after, err := s.samples(ctx, part, times{
		From: in.AfterFrom, To: in.AfterTo, Names: [2]string{"after_from", "after_to"},
	})
	if err != nil {
		return nil, err
	}
	d, err := profile.CompareSampled(before.Tree, after.Tree, before.Hz(), after.Hz(),
		profile.Norm{Per: "cpu-second", Before: before.Tree.Seconds, After: after.Tree.Seconds})
	if err != nil {
		return nil, err
	}
	return shorten(in.Rows, func(n int) ([]byte, error) {
		var b bytes.Buffer
		err := profile.WriteChangesJSON(&b, d, n)
		return bytes.TrimRight(b.Bytes(), "\n"), err
	})
}

// samples returns the recorded CPU samples of a time.
func (s *server) samples(
	ctx context.Context, part profile.Part, t times,
) (*profile.Recorded, error) {
	t.Netns = "all"
	o, err := openRecorded(s.host, t)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := checkRange(o.over); err != nil {
		return nil, err
	}
	reader, err := o.Record(
		ctx, []measure.Query{{Stat: measure.StackSamples, Step: o.over.Span()}}, 1, nil,
	)
	if err != nil {
		return nil, err
	}
	part.Over = o.over
	return profile.AskRecorded(ctx, reader, part)
}
