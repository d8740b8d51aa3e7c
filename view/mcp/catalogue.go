package mcp

import (
	"context"
	"fmt"
	"strings"

	"culprit/measure"
	"culprit/view"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The address of the catalogue, and that of a part.
const (
	catalogueURI  = "culprit://catalogue"
	cataloguePart = catalogueURI + "/{word}"
)

// briefStat is a statistic in the whole catalogue.
type briefStat struct {
	ID     measure.StatID `json:"id"`
	Kind   string         `json:"kind"`
	Unit   string         `json:"unit"` // of answers: that of the rate of a delta
	Fields []string       `json:"fields"`
	Help   string         `json:"help"`
}

// maxHelp bounds the help of a statistic in the whole catalogue, in bytes.
const maxHelp = 80

// addCatalogue adds the catalogue of statistics as resources: the whole one in short, and the
// statistics whose name contains a word with all that is known.
func (s *server) addCatalogue() {
	s.sdk.AddResource(&sdk.Resource{
		URI: catalogueURI, Name: "catalogue", Title: "Statistics", MIMEType: "application/json",
		Description: "All statistics in short: kind, unit, fields.",
	}, s.readCatalogue)
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: cataloguePart, Name: "catalogue-part", Title: "Some statistics",
		MIMEType:    "application/json",
		Description: "Statistics whose name contains the word, such as tcp: also fields and help.",
	}, s.readCatalogue)
}

func (s *server) readCatalogue(
	_ context.Context, r *sdk.ReadResourceRequest,
) (*sdk.ReadResourceResult, error) {
	word, ok := strings.CutPrefix(r.Params.URI, catalogueURI)
	if !ok || word != "" && word[0] != '/' {
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	}
	stats, err := s.host.Stats()
	if err != nil {
		return nil, err
	}
	document := []byte(nil)
	if word == "" {
		document, err = briefCatalogue(stats)
	} else {
		document, err = partOfCatalogue(stats, word[1:])
	}
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{
		URI: r.Params.URI, MIMEType: "application/json", Text: string(document),
	}}}, nil
}

func briefCatalogue(stats []measure.Stat) ([]byte, error) {
	out := struct {
		Format int         `json:"format"`
		Stats  []briefStat `json:"stats"`
	}{Format: 1, Stats: []briefStat{}}
	for i := range stats {
		st := &stats[i]
		b := briefStat{
			ID: st.ID, Kind: st.Kind.String(), Unit: string(st.AnswerUnit()), Fields: []string{},
			Help: st.Help,
		}
		if len(b.Help) > maxHelp {
			b.Help = strings.ToValidUTF8(b.Help[:maxHelp], "") + "..."
		}
		for _, f := range st.Fields {
			b.Fields = append(b.Fields, f.Name)
		}
		out.Stats = append(out.Stats, b)
	}
	return measure.MarshalJSON(out)
}

// partOfCatalogue returns the statistics whose name contains a word. The error says that there is
// none, or that there are too many.
func partOfCatalogue(stats []measure.Stat, word string) ([]byte, error) {
	var some []measure.Stat
	for i := range stats {
		if strings.Contains(string(stats[i].ID), word) {
			some = append(some, stats[i])
		}
	}
	if len(some) == 0 {
		return nil, sdk.ResourceNotFoundError(catalogueURI + "/" + word)
	}
	document := view.AppendCatalogue(nil, some)
	if len(document) > maxResult {
		return nil, fmt.Errorf("%d statistics contain %q: use a longer word", len(some),
			clean(word))
	}
	return document, nil
}
