package cases

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tmpfs mounts a file system of its own, of so many MB, at a directory, for the processes that
// shall see it: before is what to put before a program that is, and path where the file system is
// to be found from outside. It goes when the lab does.
func (l *Lab) tmpfs(t *testing.T, dir string, mb int) (before []string, path string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	holder := l.Command(
		"unshare",
		"-m",
		"--propagation",
		"private",
		"sh",
		"-c",
		fmt.Sprintf(
			`mount -t tmpfs -o size=%dm,mode=700 culprit-lab "$0" && echo mounted && exec sleep 300`, mb,
		),
		dir,
	)
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill() // it sleeps
		_ = holder.Wait()         // killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		t.Fatalf("mount a tmpfs: %q, %v", line, err)
	}
	pid := fmt.Sprint(holder.Process.Pid)
	return []string{"nsenter", "-t", pid, "-m"}, filepath.Join("/proc", pid, "root", dir)
}

// fill takes all that is free where the file is.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(b)
	}
	for b := make([]byte, 4096); len(b) > 1; b = b[:len(b)/2] { // what is less than a whole block
		for err = nil; err == nil; {
			_, err = f.Write(b)
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
}

// everySecond says which seconds of a time are not in the record of a sentence, by themselves or in
// the interval of a late one.
func (r *recorder) everySecond(sentence string, from, to time.Time) {
	r.t.Helper()
	a := r.mustAsk(sentence, from.Truncate(time.Second), to.Truncate(time.Second))
	for c, e := range a.Elapsed {
		if e == 0 && a.covered(c) {
			continue
		}
		if !(e > 0) || math.IsNaN(a.value(c)) {
			r.t.Errorf(
				"%s of the second to %s: measured over %v ms: %v", sentence,
				a.at(c).Format("15:04:05"), e, a.value(c),
			)
		}
	}
}

// serveFullDisk: on a disk that is full it goes on, from memory, also when it is started there, and
// when there is space again nothing is lost but what a server had in memory that was killed.
func serveFullDisk(policy string) func(t *testing.T, l *Lab, bin string) {
	return func(t *testing.T, l *Lab, bin string) {
		for _, tool := range []string{"unshare", "nsenter"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip("needs: tool " + tool)
			}
		}
		dir := filepath.Join(l.Dir(), "record")
		before, path := l.tmpfs(t, dir, 64)
		const sentence, full = "sched.forks", "the disk is full"
		r := serve(t, l, bin, dir, before, "--disk-full", policy)
		start := time.Now().Add(2 * time.Second)
		r.until(start.Add(2 * time.Second))
		filled := time.Now()
		if h := r.mustHealth(); len(h.Trouble) > 0 {
			t.Errorf("before: %v", h.Trouble)
		}
		troubled := func(words string) {
			t.Helper()
			r.eventually("trouble is reported, or over", 20*time.Second, func() error {
				if all := strings.Join(r.mustHealth().Trouble, "; "); !strings.Contains(
					all, words,
				) ||
					words == "" && all != "" {
					return fmt.Errorf("trouble is %q, not %q", all, words)
				}
				return nil
			})
		}

		fill(t, filepath.Join(path, "filler"))
		troubled(full)
		r.until(filled.Add(6 * time.Second)) // it is printed on its terminal by then
		r.everySecond(sentence, start, time.Now().Add(-time.Second))
		if said := r.text(); !strings.Contains(said, full) || strings.Contains(said, "goroutine ") {
			t.Errorf("it says %q", said)
		}
		r.kill()

		back := time.Now().Add(2 * time.Second)
		r = serve(t, l, bin, dir, before, "--disk-full", policy)
		troubled(full)
		r.until(back.Add(2 * time.Second))
		r.everySecond(sentence, start, filled.Add(-2*time.Second))
		r.everySecond(sentence, back, time.Now().Add(-time.Second))

		freed := time.Now()
		if err := os.Remove(filepath.Join(path, "filler")); err != nil {
			t.Fatal(err)
		}
		troubled("")
		t.Logf(
			"%v after space was freed the trouble is over",
			time.Since(freed).Round(100*time.Millisecond),
		)
		r.until(time.Now().Add(2 * time.Second))
		last := time.Now().Add(-3 * time.Second) // two seconds before a kill may be lost
		r.kill()

		fill(t, filepath.Join(path, "filler")) // and what was kept can be read there
		r = serve(t, l, bin, dir, before)
		r.everySecond(sentence, start, filled.Add(-2*time.Second))
		r.everySecond(sentence, back, last)
	}
}

// serveNowhere: a directory that can't be recorded in is said in a sentence, and the status is 1.
// Earlier records are still returned.
func serveNowhere(t *testing.T, l *Lab, bin string) {
	for _, tool := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	bin = forAll(t, l, bin)
	dir := func(name string) string { return filepath.Join(l.Dir(), name) }
	file := dir("file")
	if err := errors.Join(
		os.WriteFile(file, nil, 0o644), os.Mkdir(dir("root"), 0o700), os.Mkdir(dir("empty"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	r := serve(t, l, bin, dir("recorded"), nil)
	r.until(time.Now().Add(3 * time.Second))
	at := stamp(time.Now().Add(-2 * time.Second).Truncate(time.Second))
	r.kill()
	want, _, _ := look(t, l, bin, dir("recorded"), "nic", "--netns", "all", "--at", at)
	readOnly := func(dir string) []string {
		return []string{
			"unshare",
			"-m",
			"--propagation",
			"private",
			"sh",
			"-c",
			`mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"`,
			dir,
		}
	}
	for _, c := range []struct {
		what   string
		dir    string
		before []string
		words  []string
	}{
		{"a file", file, nil, []string{"not a directory", "--dir"}},
		{"below a file", filepath.Join(file, "x"), nil, []string{"not a directory", "--dir"}},
		{"root's", dir("root"), asNobody(), []string{"permission denied", "--dir"}},
		{"below what is root's", filepath.Join(dir("root"), "x"), asNobody(), []string{"permission denied", "--dir"}},
		{"read-only", dir("empty"), readOnly(dir("empty")), []string{"read-only file system", "--dir"}},
		{"read-only, recorded in before", dir("recorded"), readOnly(dir("recorded")), []string{"read-only file system", "--dir"}},
	} {
		s := serveIn(t, l, bin, c.dir, c.before)
		status, said := s.end(20*time.Second), strings.TrimSpace(s.text())
		if status != 1 || strings.Count(said, "\n") > 0 {
			t.Errorf("%s: status %d, %s", c.what, status, said)
		}
		for _, w := range append(c.words, l.Dir()) {
			if !strings.Contains(said, w) {
				t.Errorf("%s: %q isn't in %s", c.what, w, said)
			}
		}
	}
	ro := readOnly(dir("recorded"))
	out, errs, status := look(
		t,
		l,
		ro[0],
		dir("recorded"),
		append(ro[1:], bin, "nic", "--netns", "all", "--at", at)...)
	if status != 0 || out == "" || out != want {
		t.Errorf(
			"what was recorded in a directory that is read-only now: status %d, %s, %q, not %q",
			status, errs, out, want,
		)
	}
	for d, words := range map[string]string{file: "not a directory", dir("root"): "denied", dir("empty"): "nothing was recorded in"} {
		n := asNobody()
		out, errs, status := look(t, l, n[0], d, append(n[1:], bin, "nic", "--at", "-2s")...)
		if status != 1 || out != "" || !strings.Contains(errs, words) ||
			!strings.Contains(errs, d) {
			t.Errorf("nic of %s: status %d, %q, %q", d, status, out, errs)
		}
	}
}

// asNobody is what to put before a program that is to run without any right.
func asNobody() []string {
	return []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}
}

// forAll copies the program to where every user may run it.
func forAll(t *testing.T, l *Lab, bin string) string {
	t.Helper()
	b, err := os.ReadFile(bin)
	to := filepath.Join(l.Dir(), "bin", "culprit")
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// serveDamaged: of a damaged archive the damage is named, no returned number is wrong, and
// recording goes on.
func serveDamaged(t *testing.T, l *Lab, bin string) {
	whole := filepath.Join(l.Dir(), "whole")
	young := filepath.Join(
		l.Dir(), "young", "archive",
	) // all is in a log still, of several blocks: damage to its last one looks like a crash
	var start, end time.Time
	for n := range 3 { // each opening puts what the one before has logged into a table
		r := serve(t, l, bin, whole, nil)
		if n == 0 {
			start = time.Now()
		}
		r.until(time.Now().Add(3 * time.Second))
		end = time.Now()
		r.kill()
		if n == 0 {
			if err := os.CopyFS(young, os.DirFS(filepath.Join(whole, "archive"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	const sentence = "sched.switches"
	cells := func(t *testing.T, dir string) (map[string]string, string) {
		t.Helper()
		out, said, status := look(
			t, l, bin, dir, "stat", sentence, "--from", stamp(start), "--to", stamp(end), "1",
			"--csv",
		)
		got := map[string]string{}
		for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
			at, rest, _ := strings.Cut(line, ",")
			if i > 0 {
				got[at] = rest
			}
		}
		if status != 0 && (out != "" || !strings.Contains(said, "damaged")) {
			t.Errorf("%s: status %d, %s%s", dir, status, out, said)
		}
		return got, said
	}
	truth, said := cells(t, whole)
	if len(truth) < 5 || strings.Contains(said, "damaged") {
		t.Fatalf("the whole archive returns %d seconds: %s", len(truth), said)
	}
	flip := func(kind string, n, part int) func(files []string) error {
		return func(files []string) error {
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil || filepath.Ext(f) != kind || len(b) < part {
					continue
				}
				for range n {
					b[rand.IntN(len(b)/part)] ^= byte(1 + rand.IntN(255))
				}
				if err := os.WriteFile(f, b, 0o600); err != nil {
					return err
				}
			}
			return nil
		}
	}
	with := func(part string, do func(file string, size int64) error) func(files []string) error {
		return func(files []string) (err error) {
			for _, f := range files {
				if info, e := os.Stat(f); e == nil && strings.Contains(filepath.Base(f), part) {
					err = errors.Join(err, do(f, info.Size()))
				}
			}
			return err
		}
	}
	half := func(f string, size int64) error { return os.Truncate(f, size/2) }
	gone := func(f string, _ int64) error { return os.Remove(f) }
	old := filepath.Join(whole, "archive")
	for n, c := range []struct {
		what   string
		of     string
		damage func(files []string) error
		quiet  bool // as a crash leaves it: nothing is said
	}{
		{"a byte of each table", old, flip(".sst", 1, 1), false},
		{"twenty bytes of each table", old, flip(".sst", 20, 1), false},
		{"three bytes at the log's beginning", young, flip(".log", 3, 4), false},
		{"half of the log", old, with(".log", half), true},
		{"half of each table", old, with(".sst", half), false},
		{"no tables", old, with(".sst", gone), false},
		{"half of the manifest", old, with("MANIFEST", half), false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(l.Dir(), fmt.Sprint("copy", n))
			if err := os.CopyFS(filepath.Join(dir, "archive"), os.DirFS(c.of)); err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "archive", "*"))
			if err := c.damage(files); err != nil {
				t.Fatal(err)
			}
			atRest, said := cells(t, dir)
			// Of some things there are two copies: damage to one harms nobody.
			if !c.quiet && len(atRest) < len(truth) && !strings.Contains(said, "damaged") {
				t.Errorf("it is returned without a note of the damage: %s", said)
			}
			r := serve(t, l, bin, dir, nil)
			r.until(time.Now())
			served, _ := cells(t, dir)
			for _, got := range []map[string]string{atRest, served} {
				for at, v := range got {
					if v != truth[at] && !strings.HasSuffix(v, ",") { // not measured is empty
						t.Errorf("at %s it is %q, and was %q", at, v, truth[at])
					}
				}
			}
			trouble := strings.Join(r.mustHealth().Trouble, "; ")
			if !c.quiet && len(served) < len(truth) && !strings.Contains(trouble, "damaged") {
				t.Errorf("trouble is %q", trouble)
			}
			t.Logf(
				"of %d seconds %d at rest, %d served: %s", len(truth), len(atRest), len(served),
				trouble,
			)
			r.kill()
		})
	}
}
