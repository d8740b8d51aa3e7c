package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLintian: Debian's checker has no error and no warning.
func TestLintian(t *testing.T) {
	needs(t, "lintian")
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			c := exec.Command("lintian", "--no-tag-display-limit", "--fail-on", "error,warning",
				"--allow-root", built(t, "_"+arch+".deb"))
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestRPM: rpm reads what the package says of itself, its digests are right, and its scripts run in a
// Debian root without systemd, where rpm's database is empty.
func TestRPM(t *testing.T) {
	needs(t, "root", "rpm")
	path := built(t, map[string]string{"amd64": ".x86_64.rpm", "arm64": ".aarch64.rpm"}[runtime.GOARCH])
	root := cleanRoot(t)
	rpm := func(args ...string) string {
		t.Helper()
		c := exec.Command("rpm", args...)
		c.Env = append(os.Environ(), "LC_ALL=C")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	want(t, rpm("-qp", "--qf", "%{NAME} %{LICENSE} %{ARCH} %{BUILDHOST}\n", path),
		"culprit Apache-2.0 x86_64 reproducible\n", "culprit Apache-2.0 aarch64 reproducible\n")
	if out := rpm("-K", path); !strings.Contains(out, "digests OK") {
		t.Error(out)
	}
	want(t, rpm("-qpc", path), "/etc/culprit/culprit.yaml\n/etc/default/culprit\n")
	rpm("--root", root, "--initdb")
	rpm("--root", root, "--nodeps", "-i", path) // the root knows packages of Debian only
	inRoot(t, root, "getent passwd culprit; culprit --version; echo '# mine' >>/etc/default/culprit")
	want(t, inRoot(t, root, "stat -c '%U %a' /var/lib/culprit"), "culprit 700\n")
	rpm("--root", root, "--nodeps", "-U", "--replacepkgs", path)
	want(t, inRoot(t, root, "tail -n 1 /etc/default/culprit"), "# mine\n")
	rpm("--root", root, "-e", "culprit")
	inRoot(t, root, "! test -e /usr/bin/culprit; test -d /var/lib/culprit")
}

// TestTarball: what the archive contains runs where it was unpacked.
func TestTarball(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("tar", "xzf", built(t, "-linux-"+runtime.GOARCH+".tar.gz"), "-C", dir,
		"--strip-components=1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err = exec.Command(filepath.Join(dir, "bin/culprit"), "--version").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	version := strings.Fields(strings.TrimPrefix(filepath.Base(built(t, "-linux-amd64.tar.gz")), "culprit-"))
	if v := strings.TrimSuffix(version[0], "-linux-amd64.tar.gz"); !strings.Contains(string(out), v) {
		t.Errorf("%q is not the version %s", out, v)
	}
	unit, err := os.ReadFile(filepath.Join(dir, "lib/systemd/system/culprit.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/local/bin/culprit ") {
		t.Errorf("%v: %s", err, unit)
	}
}

// TestVersionsSort: dpkg sorts a version before the release below it, and a later one above.
func TestVersionsSort(t *testing.T) {
	needs(t, "dpkg")
	for _, c := range []struct{ low, high string }{
		{"1.0.0~20260102.abcdef01", "1.0.0"},
		{"1.0.0~20260102.abcdef01", "1.0.0~20260103.00000001"},
		{"1.0.0", "1.0.1~20260102.abcdef01"},
	} {
		if err := exec.Command("dpkg", "--compare-versions", c.low, "lt", c.high).Run(); err != nil {
			t.Errorf("%s is not below %s: %v", c.low, c.high, err)
		}
	}
}

// TestSettings: what make dist cannot work with is refused, and no directory of others is emptied.
func TestSettings(t *testing.T) {
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, version, epoch, out, want string }{
		{"no version", "", "1", t.TempDir(), "-version"},
		{"a word", "v1.0.0", "1", t.TempDir(), "-version"},
		{"a path", "1/../..", "1", t.TempDir(), "-version"},
		{"no time", "1.0.0", "", t.TempDir(), "SOURCE_DATE_EPOCH"},
		{"a negative time", "1.0.0", "-5", t.TempDir(), "SOURCE_DATE_EPOCH"},
		{"a directory of others", "1.0.0", "1", foreign, "thesis.txt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
			r := release{root: ".", out: c.out, version: c.version}
			if err := r.prepare(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that names %s", err, c.want)
			}
		})
	}
}

// TestReproducible builds everything again in another directory, as another user of git would, and
// wants the same bytes. Page and programs are built again as well.
func TestReproducible(t *testing.T) {
	needs(t, "git", "npm")
	sums, err := os.ReadFile("../../bin/dist/SHA256SUMS")
	if err != nil {
		t.Fatalf("run make dist first: %v", err)
	}
	version := strings.TrimSuffix(
		strings.TrimPrefix(filepath.Base(built(t, "-image.tar")), "culprit-"), "-image.tar",
	)
	info, err := os.Stat(built(t, "-image.tar"))
	if err != nil || time.Since(info.ModTime()) < 0 {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "elsewhere")
	script := `mkdir "$2"; cd "$1"
git ls-files -coz --exclude-standard | tar c --null -T - | tar x -C "$2"
if [ -d ui/node_modules ]; then ln -s "$1/ui/node_modules" "$2/ui/node_modules"; fi
cd "$2"
umask 077
if [ -e "$1/ui/dist/index.html" ]; then .ci/page build; fi
go -C tools/dist build -o "$2/tools/dist/dist" .
tools/dist/dist -root . -version "$3"`
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash", "-euc", script, "bash", root, copied, version)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epochOf(t, root), "TZ=Asia/Tokyo", "LC_ALL=C")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again, err := os.ReadFile(filepath.Join(copied, "bin/dist/SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Split(string(sums), "\n")
	second := strings.Split(string(again), "\n")
	for i := range max(len(first), len(second)) {
		if i >= len(first) || i >= len(second) || first[i] != second[i] {
			t.Errorf("file %d differs:\n%s\n%s", i, fmt.Sprint(first), fmt.Sprint(second))
		}
	}
}

// epochOf returns the modification time that make dist sets for all files, in seconds since 1970.
func epochOf(t *testing.T, root string) string {
	t.Helper()
	if e := os.Getenv("SOURCE_DATE_EPOCH"); e != "" {
		return e
	}
	c := exec.Command("git", "log", "-1", "--format=%ct")
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
