package collect

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// filesOf is a made-up process with some of its files open.
func filesOf(pid, open int, limit string) map[string]string {
	p := fmt.Sprintf("proc/%d/", pid)
	all := map[string]string{p + "comm": fmt.Sprintf("p%d\n", pid),
		p + "limits": "Limit                     Soft Limit           Hard Limit           Units     \nMax processes             1                    2                    processes \nMax open files            " + limit + "                 4096                 files     \n"}
	for i := range open {
		all[fmt.Sprintf("%sfd/%d", p, i)] = ""
	}
	return all
}

// TestDescriptors: a process near its limit has rows at each reading, another has none; one that comes near is found within a round.
func TestDescriptors(t *testing.T) {
	m := newMachine(t, Descriptors{}, merge(filesOf(7, 64, "64"), filesOf(8, 10, "64"), filesOf(9, 5, "unlimited"), filesOf(10, 3, "0")))
	near := map[string]float64{"process.descriptors|7|p7": 64, "process.descriptors.limit|7|p7": 64}
	expect(t, m.read(true), "", near)
	expect(t, m.read(false), "", near)
	m.put(filesOf(8, 40, "64"))
	near["process.descriptors|8|p8"], near["process.descriptors.limit|8|p8"] = 40, 64
	var got map[string]float64
	for range 2 * renewDescriptors {
		got = m.read(false)
	}
	expect(t, got, "", near)
	if err := os.RemoveAll(m.dir + "/proc/7"); err != nil {
		t.Fatal(err)
	}
	expect(t, m.read(false), "process.descriptors|7", nil)
}

// TestDescriptorsOfARealProcess: what is counted is what the kernel says.
func TestDescriptorsOfARealProcess(t *testing.T) {
	c := exec.Command("sh", "-c", "ulimit -n 16; exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null; echo up; read x")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // it ends by the end of its input
	defer in.Close()
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Descriptors{}.Open(&Env{}, wantAll(Descriptors{}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := newOut(Descriptors{}.Stats(), newDictionary(), false)
	o.before = time.Now().Add(-time.Second)
	o.start(true)
	if err := r.Read(o); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, o)
	found := false
	for k, v := range rows {
		if strings.HasPrefix(k, fmt.Sprintf("process.descriptors|%d|", c.Process.Pid)) {
			found = true
			if v != float64(len(names)) {
				t.Errorf("%s is %v, the kernel lists %d", k, v, len(names))
			}
		}
	}
	if !found {
		t.Errorf("a process with %d of 16 files open has no row: %v", len(names), rows)
	}
}
