package packaging_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// panel is what Grafana's model of a panel says that matters here.
type panel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		RefID, Expr, LegendFormat, Format string
		Datasource                        struct{ Type, UID string }
	}
}

// dashboard reads the dashboard.
func dashboard(t *testing.T) (panels []panel, variables []string) {
	t.Helper()
	text, err := os.ReadFile("grafana/culprit.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title, UID    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 {
		t.Errorf("title %q, uid %q, schemaVersion %d", d.Title, d.UID, d.SchemaVersion)
	}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	return d.Panels, variables
}

// units are those of Grafana's list that the dashboard uses.
//
// table: names of units
var units = []string{"short", "percentunit", "bytes", "Bps", "s", "ops", "iops", "pps"}

// TestDashboardLayout checks what Grafana checks when it loads a dashboard, and what a reader sees.
func TestDashboardLayout(t *testing.T) {
	panels, variables := dashboard(t)
	if want := []string{"datasource", "host", "instance"}; !slices.Equal(variables, want) {
		t.Errorf("variables %v, want %v", variables, want)
	}
	cells := map[[2]int]int{}
	ids := map[int]bool{}
	types := map[string]int{}
	for _, p := range panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%s: the ID %d is taken or 0", p.Title, p.ID)
		}
		ids[p.ID] = true
		types[p.Type]++
		if g := p.GridPos; g.X < 0 || g.W < 1 || g.X+g.W > 24 || g.H < 1 {
			t.Errorf("%s: lies at %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != 0 {
					t.Fatalf("%s lies over panel %d", p.Title, other)
				}
				cells[[2]int{x, y}] = p.ID
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d: title %q, description %q, %d queries", p.ID, p.Title, p.Description, len(p.Targets))
		}
		if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
			t.Errorf("%s: the unit %q is not known", p.Title, p.FieldConfig.Defaults.Unit)
		}
		for _, target := range p.Targets {
			if target.Datasource != p.Datasource || p.Datasource.Type != "prometheus" ||
				p.Datasource.UID != "${datasource}" && p.Datasource.UID != "${host}" {
				t.Errorf("%s: data source %v, of the query %v", p.Title, p.Datasource, target.Datasource)
			}
		}
	}
	for _, want := range []string{"row", "timeseries", "table", "heatmap", "bargauge"} {
		if types[want] == 0 {
			t.Errorf("no panel of the type %s", want)
		}
	}
}
