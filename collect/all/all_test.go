package all

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCollectors checks that each collector is listed once. A merge easily drops a line of a list.
func TestCollectors(t *testing.T) {
	listed := map[string]int{}
	for _, c := range Collectors() {
		listed[fmt.Sprintf("%T", c)]++
	}
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	opens := regexp.MustCompile(`(?m)^func \((?:\w+ )?([A-Z]\w*)\) Open\(env \*collect\.Env`)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range opens.FindAllSubmatch(text, -1) {
			found++
			if n := listed[filepath.Base(filepath.Dir(name))+"."+string(m[1])]; n != 1 {
				t.Errorf("%s: %s is listed %d times in Collectors", name, m[1], n)
			}
		}
	}
	if found != len(listed) || found < 10 {
		t.Errorf("%d collectors found in the files, %d listed", found, len(listed))
	}
}
