package term

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/diagnose"
)

// TestImport runs diagnose --import on files, a directory, and what it must refuse.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := write("link.txt", "e1000g7 speed 100 10,100,1000\ne1000g8 speed 1000 10,100,1000\n")
	quiet := write("quiet.txt", "12:00 up 2 days, 1 user, load average: 0.10, 0.20, 0.30\n")
	prose := write("prose.txt", "It is slow.\n")
	write("sos/sos_commands/host/uptime", "12:00 up 2 days, load average: 0.11, 0.20, 0.30\n")
	write("sos/sos_commands/host/other", "e1000g7 speed 100 10,100,1000\n")
	write("kernel/sos_commands/kernel/dmesg_-T",
		"[Mon Nov 23 10:11:12 2026] blk_update_request: I/O error, dev sdq, sector 88\n")
	for _, tt := range []struct {
		name   string
		args   string
		status int
		words  string // in the output or the error
	}{
		{"finding", "--import " + link, 0, "e1000g7 runs at 100 of 1000 Mbit/s"},
		{"exit status", "--exit-code --import " + link, 3, "e1000g7"},
		{"exit status without findings", "--exit-code --import " + quiet, 0, "load average 0.1"},
		{"further files", "--import " + quiet + " " + link, 0, "e1000g7"},
		{"prose beside a table", "--import " + quiet + " " + prose, 0, "prose.txt: no table"},
		{"prose alone", "--import " + prose, 1, "culprit reads mpstat"},
		{"no file", "--import " + dir + "/none", 1, "none"},
		{"sosreport", "--import " + dir + "/sos", 0, "load average 0.11"},
		{"log of a sosreport", "--import " + dir + "/kernel", 0, "sdq returned I/O errors once"},
		{"live and captured", "--for 5s --import " + link, 2, "exclude each other"},
		{"file without the flag", link, 2, "--import"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := run(t, &machine{}, strings.Fields("diagnose "+tt.args)...)
			if status != tt.status || !strings.Contains(out+errs, tt.words) {
				t.Errorf("status %d, want %d with %q:\n%s%s", status, tt.status, tt.words, out, errs)
			}
		})
	}
	status, out, _ := run(t, &machine{}, "diagnose", "--json", "--import", link)
	var r diagnose.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 ||
		len(r.Findings) != 1 || r.Findings[0].ID != "link-below-mode/e1000g7" ||
		len(r.Captured) != 1 {
		t.Errorf("status %d, error %v, report %+v", status, err, r)
	}
}
