package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTopology(t *testing.T) {
	dir := t.TempDir()
	// the third does not know its chip, as in some virtual machines
	for cpu, place := range [][2]string{{"0", "1"}, {"0", "1"}, {"-1", ""}, {"3", "0"}} {
		path := filepath.Join(dir, fmt.Sprint("cpu", cpu))
		err := os.MkdirAll(filepath.Join(path, "topology"), 0o755)
		if err == nil {
			err = os.WriteFile(
				filepath.Join(path, "topology/physical_package_id"), []byte(place[0]+"\n"), 0o644,
			)
		}
		if err == nil && place[1] != "" {
			err = os.Mkdir(filepath.Join(path, "node"+place[1]), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "cpufreq"), 0o755); err != nil {
		t.Fatal(err)
	}
	chips, nodes := topology(dir)
	if !slices.Equal(chips, []int{0, 0, 0, 3}) || !slices.Equal(nodes, []int{1, 1, 0, 0}) {
		t.Errorf("chips %v, nodes %v", chips, nodes)
	}
}
