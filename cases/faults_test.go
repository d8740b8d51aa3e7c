package cases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaults checks that the stories and the numbers that FAULTS.md names exist.
func TestFaults(t *testing.T) {
	b, err := os.ReadFile("FAULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range strings.Split(string(b), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || strings.HasPrefix(cells[1], "--") || cells[1] == " fault " {
			continue
		}
		rows++
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		fault, stories, numbers, remark := cells[1], cells[3], cells[4], cells[5]
		if stories == "-" && numbers == "-" && remark == "" {
			t.Errorf("%s: nothing shows it, and no reason is given", fault)
		}
		for _, name := range strings.Split(stories, ", ") {
			if name == "-" {
				continue
			}
			if s, err := Find(name); err != nil {
				t.Errorf("%s: %v", fault, err)
			} else if s.Twin == "" {
				t.Errorf("%s: story %s is a healthy one, or has no twin", fault, name)
			}
		}
		if numbers != "-" {
			file := filepath.Join("../diagnose/rules/testdata", numbers+".txt")
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", fault, err)
			}
		}
	}
	if rows < 64 {
		t.Errorf("%d faults, fewer than 64", rows)
	}
}
