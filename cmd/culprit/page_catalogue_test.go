package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view/web"
)

var update = flag.Bool("update", false, "update the page's copy of the catalogue")

// pageCatalogue is the answer of api/catalogue in the tests of the page, with results of AddsUp.
const pageCatalogue = "../../ui/data/testdata/catalogue.json"

// staticMachine is a machine with a catalogue that measures nothing.
type staticMachine struct {
	web.Machine
	stats []measure.Stat
}

func (s staticMachine) Stats() []measure.Stat { return s.stats }

func (s staticMachine) Tick(ctx context.Context, _ measure.Time) (measure.Time, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (s staticMachine) Report(ctx context.Context, _ measure.Time) (measure.Time, []byte, error) {
	<-ctx.Done()
	return 0, nil, ctx.Err()
}

// TestPageCatalogue compares pageCatalogue with the answer of the server, without the help of
// statistics. The file also contains the results of rowsAddUp for each statistic.
func TestPageCatalogue(t *testing.T) {
	stats := catalogue().Stats()
	const token = "0123456789abcdef0123456789abcdef"
	s := web.New(staticMachine{stats: stats}, web.About{}, token)
	defer s.Close()
	r := httptest.NewRequest("GET", "http://127.0.0.1/api/catalogue", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.HTTP(false).Handler.ServeHTTP(w, r)
	var sent struct{ Stats []map[string]json.RawMessage }
	if err := json.Unmarshal(w.Body.Bytes(), &sent); err != nil || w.Code != 200 ||
		len(sent.Stats) != len(stats) {
		t.Fatalf("status %d, %d of %d statistics: %v", w.Code, len(sent.Stats), len(stats), err)
	}
	var b bytes.Buffer
	b.WriteString("[")
	for i := range stats {
		// A statistic's help has no effect. That of a field distinguishes fields of one name.
		delete(sent.Stats[i], "help")
		line, err := json.Marshal(
			map[string]any{"stat": sent.Stats[i], "adds": rowsAddUp(t, &stats[i])},
		)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(map[bool]string{true: "\n", false: ",\n"}[i == 0])
		b.Write(line)
	}
	b.WriteString("\n]\n")
	if *update {
		if err := os.WriteFile(pageCatalogue, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old, err := os.ReadFile(pageCatalogue); err != nil || !bytes.Equal(old, b.Bytes()) {
		t.Errorf(
			"%s differs from the answer of the server (%v): go test ./cmd/culprit -run PageCatalogue -update",
			pageCatalogue, err,
		)
	}
}

// rowsAddUp returns for some predicates whether the rows of st add up, as AddsUp reports: one digit
// for each field as the breakdown, and one for all fields; "1" if they do.
func rowsAddUp(t *testing.T, st *measure.Stat) map[string]string {
	t.Helper()
	if len(st.Fields) == 0 {
		return nil
	}
	var all []string
	terms := []string{""}
	for _, f := range st.Fields {
		all = append(all, f.Name)
		if f.Overlaps {
			terms = append(
				terms, f.Name+` = "1"`, f.Name+` in ("1")`, f.Name+` in ("1", "2")`,
				f.Name+` != "1"`,
			)
		}
	}
	terms = append(terms, strings.Join(all, ` = "1" and `)+` = "1"`)
	out := map[string]string{}
	for _, term := range terms {
		where := ""
		if term != "" {
			where = " where " + term
		}
		for _, by := range append(all[:len(all):len(all)], strings.Join(all, ",")) {
			q, err := measure.ParseQuery(string(st.ID) + " by " + by + where)
			if err != nil {
				t.Fatal(err)
			}
			out[term] += map[bool]string{true: "1", false: "0"}[st.AddsUp(q)]
		}
	}
	return out
}
