package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// directoryAttacks take away what a server records in, and stop it.
func directoryAttacks() []attack {
	return []attack{
		{"T1", "root, by mistake", "rm -r of the directory while it records, and 400 processes",
			"reported in 2 s, no crash", removedDirectory},
		{"T3", "a shortage", "too many open files at the start", "reported or measured within 20 s",
			fewFiles},
		{"D1", "root, by mistake", "two servers on one directory", "refused, names the process",
			twoServers},
		{"D2", "the administrator", "SIGSTOP of all processes for 5 s", "a note", stopped},
	}
}

func removedDirectory(b *bench) (string, error) {
	s, err := b.serve(b.newDir())
	if err != nil {
		return "", err
	}
	defer s.kill()
	if err := os.RemoveAll(s.dir); err != nil {
		return "", err
	}
	began := time.Now()
	if err := s.within(4*time.Second, "trouble", func() error {
		trouble, err := s.troubles()
		if err == nil && len(trouble) == 0 {
			err = errors.New("no trouble is reported")
		}
		return err
	}); err != nil {
		return "", err
	}
	reported := time.Since(began)
	if err := b.helper(spawn(400)); err != nil {
		return "", err
	}
	time.Sleep(12 * time.Second)
	lost, err := s.lost(began.Add(-time.Second), time.Now())
	if err != nil || lost > 0 {
		return "", failed(err, "%d seconds lost: %s", lost, s.text())
	}
	return fmt.Sprintf("reported after %.1f s, all seconds in memory", reported.Seconds()), nil
}

func fewFiles(b *bench) (string, error) {
	s, err := b.start(b.newDir(), []string{"sh", "-c", `ulimit -n 256; exec "$@"`, "sh"})
	if err != nil {
		return "", err
	}
	defer s.kill()
	if err := s.ready(); err != nil {
		return "", err
	}
	var trouble []string
	err = s.within(20*time.Second, "processes", func() error {
		if trouble, err = s.troubles(); err == nil && len(trouble) > 0 {
			return nil
		}
		a, err := s.ask("process.cpu by process", time.Now().Add(-3*time.Second), time.Now())
		if err == nil && len(a.Series) == 0 {
			err = errors.New("no process is recorded, and nothing is reported")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if len(trouble) > 0 {
		return fmt.Sprintf("reported: %.80s", trouble[0]), nil
	}
	return "processes are recorded", nil
}

func twoServers(b *bench) (string, error) {
	s, err := b.start(b.main.dir, nil)
	if err != nil {
		return "", err
	}
	defer s.kill()
	began := time.Now()
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		return "", errors.New("the second one runs")
	}
	named := false
	for _, pids := range b.main.processes() {
		for _, pid := range pids {
			named = named || strings.Contains(s.text(), fmt.Sprint(pid))
		}
	}
	if !named {
		return "", fmt.Errorf("no process is named: %s", s.text())
	}
	return fmt.Sprintf("refused after %.1f s", time.Since(began).Seconds()), nil
}

func stopped(b *bench) (string, error) {
	s, err := b.serve(b.newDir())
	if err != nil {
		return "", err
	}
	defer s.kill()
	time.Sleep(time.Second)
	began := time.Now()
	all := descendants(s.cmd.Process.Pid)
	for _, pid := range all {
		_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended
	}
	time.Sleep(5 * time.Second)
	for _, pid := range all {
		_ = unix.Kill(pid, unix.SIGCONT) // as above
	}
	note := ""
	err = s.within(10*time.Second, "a note", func() error {
		a, err := s.ask("sched.forks", began, time.Now())
		if err != nil {
			return err
		}
		for _, n := range a.Notes {
			if strings.Contains(n, "stop") || strings.Contains(n, "pause") {
				note = n
				return nil
			}
		}
		return fmt.Errorf("the notes are %q", a.Notes)
	})
	return fmt.Sprintf("%.90s", note), err
}

// archiveAttacks damage the files of an archive.
func archiveAttacks() []attack {
	return []attack{
		{"T2", "a power cut", "each file of an archive emptied, halved, flipped, zeroed, removed",
			"the rest answers, the damage is named", damaged},
	}
}

// damages are what happens to a file.
// table: functions by name
var damages = []struct {
	name string
	do   func(path string, b []byte) error
}{
	{"emptied", func(p string, _ []byte) error { return os.Truncate(p, 0) }},
	{"halved", func(p string, b []byte) error { return os.Truncate(p, int64(len(b)/2)) }},
	{"flipped", func(p string, b []byte) error {
		if len(b) > 0 {
			b[len(b)/3] ^= 4
		}
		return os.WriteFile(p, b, 0o600)
	}},
	{"zeroed", func(p string, b []byte) error {
		for i := range min(4096, len(b)) {
			b[i] = 0
		}
		return os.WriteFile(p, b, 0o600)
	}},
	{"removed", func(p string, _ []byte) error { return os.Remove(p) }},
}

func damaged(b *bench) (string, error) {
	whole := b.newDir()
	began := time.Now()
	for range 3 { // each start puts the log of the one before into a table
		s, err := b.serve(whole)
		if err != nil {
			return "", err
		}
		time.Sleep(2 * time.Second)
		s.kill()
	}
	query := []string{
		"stat", "sched.forks", "--from", stamp(began), "--to", stamp(time.Now()), "1", "--csv",
		"--dir",
	}
	seconds := func(dir string) (int, string, error) {
		out, said, status, err := b.tool(30*time.Second, append(query, dir)...)
		if err == nil && status < 0 {
			err = fmt.Errorf("a signal ended it: %s", said)
		}
		n := 0
		for _, l := range lines(out) {
			if fields := strings.Split(l, ","); len(fields) > 1 && fields[len(fields)-1] != "" {
				n++
			}
		}
		return max(0, n-1), said, err // without the head
	}
	all, said, err := seconds(whole)
	if err != nil || all < 4 {
		return "", failed(err, "the whole archive has %d seconds: %s", all, said)
	}
	files, err := os.ReadDir(filepath.Join(whole, "archive"))
	if err != nil {
		return "", err
	}
	tried, least, silent := 0, all, ""
	for _, f := range files {
		for _, d := range damages {
			dir := b.newDir()
			if err := os.CopyFS(filepath.Join(dir, "archive"),
				os.DirFS(filepath.Join(whole, "archive"))); err != nil {
				return "", err
			}
			path := filepath.Join(dir, "archive", f.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			if err := d.do(path, text); err != nil {
				return "", err
			}
			n, said, err := seconds(dir)
			if err != nil {
				return "", fmt.Errorf("%s %s: %w", f.Name(), d.name, err)
			}
			tried++
			least = min(least, n)
			if n < all && !strings.Contains(said, "damage") && !strings.HasSuffix(f.Name(),
				".log") {
				silent = f.Name() + " " + d.name + ": " + said
			}
			if n == 0 {
				return "", fmt.Errorf("%s %s: nothing is left of %d seconds: %s", f.Name(), d.name,
					all, said)
			}
			_ = os.RemoveAll(dir) // of this run
		}
	}
	if silent != "" {
		return "", fmt.Errorf("seconds are missing without a word: %s", silent)
	}
	return fmt.Sprintf("%d damages of %d files: at least %d of %d seconds answer", tried,
		len(files),
		least, all), nil
}
