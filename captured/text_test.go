package captured

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{
		"12": 12, "99.67": 99.67, "99,67": 99.67, "0,3": 0.3, "24,973,067": 24973067,
		"1,232": 1232, "1,232.5": 1232.5, "4%": 4, "374m": 374 << 20, "2k": 2048, "-3": -3,
		"0,123": 0.123, "12,": 12,
	} {
		if got, ok := number(text); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "-", "eth0", "k", "%", "1.2.3", "NaN", "inf", "0x41"} {
		if got, ok := number(text); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestPrompt(t *testing.T) {
	for line, want := range map[string]string{
		"# mpstat 10": "mpstat 10", "$ vmstat 1": "vmstat 1", "root@db1:~# iostat -x": "iostat -x",
		"[root@db1 ~]# sar -q": "sar -q", "user@host:/tmp$ top": "top",
	} {
		if got, ok := isPrompt(line); !ok || got != want {
			t.Errorf("%q: command %q, want %q", line, got, want)
		}
	}
	for _, line := range []string{"2048 |@@@ # 10", "CPU %usr %idle", "54 4% 8% 0.00 2301 cpu0 x"} {
		if c, ok := isPrompt(line); ok {
			t.Errorf("%q is read as the command %q", line, c)
		}
	}
}

func TestNoTable(t *testing.T) {
	_, err := Read("note.txt", "The machine is slow since Monday.\nPlease help.\n")
	if !errors.Is(err, ErrNoTable) || !strings.Contains(err.Error(), "mpstat") {
		t.Errorf("error %v", err)
	}
	if _, err := Read("big", strings.Repeat("x", MaxFile+1)); err == nil {
		t.Error("a text above the limit is read")
	}
}

// TestBounds reads texts that would take much memory or time without limits.
func TestBounds(t *testing.T) {
	const table = "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %idle\n" +
		"all 1.00 0.00 2.00 0.00 0.00 0.00 0.00 0.00 97.00\n"
	c, err := Read("line", table+strings.Repeat("a ", 2*maxLine)+"\n")
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "longer than 1 MB") {
		t.Errorf("a long line: notes %v, error %v", c.Notes, err)
	}
	_, row, _ := strings.Cut(table, "\n")
	c, err = Read("rows", table+strings.Repeat(row, maxRows+10))
	if err != nil || len(c.Tables[0].Rows) != maxRows || len(c.Notes) != 1 {
		t.Errorf("%d rows are kept, error %v, notes %v", len(c.Tables[0].Rows), err, c.Notes)
	}
	c, err = Read("tables", strings.Repeat("# mpstat\n"+table, maxTables+10))
	if err != nil || len(c.Tables) < maxTables-1 || len(c.Tables) > maxTables {
		t.Errorf("%d tables are kept, error %v", len(c.Tables), err)
	}
}

func TestCutTable(t *testing.T) {
	c, err := Read("a", "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %idle\n"+
		"0 1.00 0.00 2.00 0.00 0.00 0.00 0.00 0.00 97.00\n1 1.00 0.00 9")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "cut") {
		t.Errorf("notes %v", c.Notes)
	}
}
