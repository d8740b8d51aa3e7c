package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"culprit/diagnose"
	"culprit/measure"
	"culprit/view/show"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRange bounds the time range of a diagnosis, of a profile and of findings.
const maxRange = 7 * 24 * 60 * measure.Minute

// checkRange fails if a time range is longer than maxRange.
func checkRange(over measure.Interval) error {
	if over.Span() > maxRange {
		return show.Usagef("%v is too long: at most 7 days", over.Span())
	}
	return nil
}

type diagnoseArgs struct {
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Seconds int    `json:"seconds,omitempty"`
	Netns   string `json:"netns,omitempty"`
	Limit   int    `json:"limit,omitempty"`
}

// addDiagnose adds the tool diagnose.
func (s *server) addDiagnose() {
	add(s, "diagnose", "Diagnose", "Find what limits this machine, now or in a recorded time. "+
		"Returns ranked findings with culprit, evidence, verify and fix, and what is ruled out.",
		func(schema *jsonschema.Schema) {
			boundTexts(schema)
			bound(schema, "seconds", 3, maxSeconds, 10)
			schema.Properties["seconds"].Description = "without from: how long to watch"
			bound(schema, "limit", 1, 50, 10)
		}, s.diagnose)
}

func (s *server) diagnose(ctx context.Context, in diagnoseArgs) (*sdk.CallToolResult, error) {
	span := measure.Span(in.Seconds) * measure.Second
	report, err := s.report(ctx, times{
		From: in.From, To: in.To, Span: span, Netns: in.Netns, Diagnosing: true,
	})
	if err != nil {
		return nil, err
	}
	return shorten(in.Limit, func(n int) ([]byte, error) {
		some := *report
		if len(some.Findings) > n {
			some.Findings = some.Findings[:n]
			some.Notes = append(slices.Clone(some.Notes), leftOut(len(report.Findings)-n))
		}
		return json.Marshal(&some)
	})
}

// report diagnoses a time.
func (s *server) report(ctx context.Context, t times) (*diagnose.Report, error) {
	o, err := open(s.host, t)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if o.isLive() {
		report, err := show.DiagnoseNow(ctx, o, t.Span.AsDuration(), nil)
		if err == nil && ctx.Err() != nil { // what was measured until then is of no use
			err = context.Cause(ctx)
		}
		return report, err
	}
	if err := checkRange(o.over); err != nil {
		return nil, err
	}
	report, err := show.DiagnosePast(ctx, o, o.over, o.fine)
	if err != nil {
		return nil, err
	}
	if p, ok := o.Machine.(*show.Replay); ok {
		if err := p.AddPast(ctx, report); err != nil {
			return nil, err
		}
	}
	report.Notes = append(report.Notes, o.notes...)
	return report, nil
}

type findingsArgs struct {
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// addFindings adds the tool findings.
func (s *server) addFindings() {
	add(s, "findings", "Past findings", "List the findings that culprit serve recorded in a time: "+
		"each once, with its first and last time and how often it was logged.",
		func(schema *jsonschema.Schema) {
			boundTexts(schema)
			bound(schema, "limit", 1, 100, 20)
			schema.Properties["from"].Description = "start; default -1h"
		}, s.findings)
}

// episode is a finding of several diagnoses.
type episode struct {
	ID       string            `json:"id"`
	Rule     string            `json:"rule"`
	Severity diagnose.Severity `json:"severity"` // the highest
	Culprit  diagnose.Culprit  `json:"culprit"`  // of the newest diagnosis, as the following
	Claim    string            `json:"claim"`
	Verify   string            `json:"verify"`
	First    measure.Time      `json:"first"`
	Last     measure.Time      `json:"last"`
	Logged   int               `json:"logged"` // diagnoses with it; one per minute while it lasts
}

// maxEpisodes bounds the different findings of a time range.
const maxEpisodes = 2000

func (s *server) findings(ctx context.Context, in findingsArgs) (*sdk.CallToolResult, error) {
	t := times{From: cmp.Or(in.From, "-1h"), To: in.To, Netns: "all"}
	when := show.When{From: t.From, To: t.To}
	now := time.Now()
	over, err := when.Parse(now)
	if err != nil {
		return nil, err
	}
	if err := checkRange(over.Over); err != nil {
		return nil, err
	}
	r, err := s.host.Recording()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	if err := over.Within(r.Held(), r.Remark(), 0, now); err != nil {
		return nil, err
	}
	all, diagnoses, err := episodes(ctx, r, over.Over)
	if err != nil {
		return nil, err
	}
	return shorten(in.Limit, func(n int) ([]byte, error) {
		out := struct {
			Format    int          `json:"format"`
			Start     measure.Time `json:"start"`
			End       measure.Time `json:"end"`
			Diagnoses int          `json:"diagnoses"` // logged in this time
			Findings  []episode    `json:"findings"`
			Notes     []string     `json:"notes"`
		}{1, over.Over.Start, over.Over.End, diagnoses, all, []string{}}
		out.Notes = append(out.Notes, over.Notes...)
		if len(all) > n {
			out.Findings = all[:n]
			out.Notes = append(out.Notes, leftOut(len(all)-n))
		}
		return json.Marshal(out)
	})
}

// episodes returns the findings that were logged in a time range, the most severe first and the
// newest of those, and the number of logged diagnoses.
func episodes(
	ctx context.Context, r show.Recorded, over measure.Interval,
) (all []episode, diagnoses int, err error) {
	byID := map[string]*episode{}
	err = r.Findings(ctx, over, func(at measure.Time, document []byte) error {
		var report diagnose.Report
		if err := json.Unmarshal(document, &report); err != nil {
			return err
		}
		diagnoses++
		for _, f := range report.Findings {
			e := byID[f.ID]
			if e == nil {
				if len(byID) >= maxEpisodes {
					return show.Usagef("there are more than %d findings: choose a shorter time",
						maxEpisodes)
				}
				e = &episode{ID: f.ID, Rule: f.Rule, Severity: f.Severity, First: at}
				byID[f.ID] = e
			}
			if rank(f.Severity) > rank(e.Severity) {
				e.Severity = f.Severity
			}
			e.Culprit, e.Claim, e.Verify, e.Last = f.Culprit, f.Claim, f.Verify, at
			e.Logged++
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	all = make([]episode, 0, len(byID))
	for _, e := range byID {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b episode) int {
		return cmp.Or(
			cmp.Compare(rank(b.Severity), rank(a.Severity)), cmp.Compare(b.Last, a.Last),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return all, diagnoses, nil
}

// rank orders severities.
func rank(s diagnose.Severity) int {
	return slices.Index([]diagnose.Severity{diagnose.Low, diagnose.Medium, diagnose.High}, s)
}
