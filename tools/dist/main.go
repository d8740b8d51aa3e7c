// Dist builds what a release consists of, below bin/dist: Debian and RPM packages and tarballs for
// amd64 and arm64, their bills of materials, the container image for both, and SHA256SUMS. The same
// tree, version and SOURCE_DATE_EPOCH make the same bytes, whoever builds and in whatever directory.
//
//	go -C tools/dist run . -root ../.. -version 1.0.0
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	r := release{}
	flag.StringVar(&r.root, "root", ".", "the directory of go.mod")
	flag.StringVar(&r.out, "out", "bin/dist", "where the files are written, below root")
	flag.StringVar(&r.version, "version", "", "the version, such as 1.0.0 or 1.0.0~20260102.abcdef01")
	arch := flag.String("arch", "amd64,arm64", "architectures, as GOARCH names them")
	flag.Parse()
	r.arches = strings.Split(*arch, ",")
	if err := r.run(); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// A release is what is built and where.
type release struct {
	root    string // the directory of go.mod
	out     string // the directory of the results; relative to root
	version string
	arches  []string
	time    time.Time // of all files, from SOURCE_DATE_EPOCH
}

// run builds everything. A failure leaves what was built so far, without SHA256SUMS.
func (r *release) run() error {
	if err := r.prepare(); err != nil {
		return err
	}
	for _, arch := range r.arches {
		if err := r.build(arch); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := r.image(); err != nil {
		return fmt.Errorf("the image: %w", err)
	}
	return r.sums()
}

// prepare checks the settings and empties the directory of the results.
func (r *release) prepare() error {
	if r.version == "" || strings.ContainsAny(r.version, " -_/:") || r.version[0] < '0' ||
		r.version[0] > '9' {
		return fmt.Errorf(
			"-version %q: want a digit first, and none of space - _ / : (1.0.0~20260102.abcdef01)",
			r.version,
		)
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return fmt.Errorf("SOURCE_DATE_EPOCH=%q: want seconds since 1970: make dist sets it", epoch)
	}
	r.time = time.Unix(seconds, 0).UTC()
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if !filepath.IsAbs(r.out) {
		r.out = filepath.Join(r.root, r.out)
	}
	// Only a directory of earlier results is emptied.
	names, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), "culprit") && n.Name() != "SHA256SUMS" {
			return fmt.Errorf("%s has a file %s of another program: use an empty directory", r.out, n.Name())
		}
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.MkdirAll(r.out, 0o755)
}

// build makes the packages, the tarball and the bill of materials of one architecture.
func (r *release) build(arch string) error {
	stage, err := os.MkdirTemp("", "culprit-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage) //nolint:errcheck // temporary
	program := r.program(arch)
	if err := r.compile(arch, program); err != nil {
		return err
	}
	if err := r.tarball(arch, filepath.Join(stage, "tarball"), program); err != nil {
		return fmt.Errorf("tarball: %w", err)
	}
	if err := r.packages(arch, filepath.Join(stage, "package"), program); err != nil {
		return fmt.Errorf("packages: %w", err)
	}
	bill, err := r.output("go", "run", "./tools/licenses", "-version", r.version, "-sbom", program)
	if err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	return os.WriteFile(r.file(arch, ".cdx.json"), bill, 0o644)
}

// file returns the path of a result.
func (r *release) file(arch, suffix string) string {
	return filepath.Join(r.out, "culprit-"+r.version+"-linux-"+arch+suffix)
}

// program returns the path of the program for an architecture.
func (r *release) program(arch string) string {
	return filepath.Join(r.root, ".cache", "dist", arch, "culprit")
}

// compile builds the static program. Version and build flags are the same in make build.
func (r *release) compile(arch, program string) error {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+r.version, "-o", program, "./cmd/culprit")
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w: %s", err, out)
	}
	return nil
}

// output runs a command in the root and returns what it prints.
func (r *release) output(name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Dir = r.root
	var trouble strings.Builder
	c.Stderr = &trouble
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, trouble.String())
	}
	return out, nil
}

// sums writes SHA256SUMS, as sha256sum --check reads it, and prints it.
func (r *release) sums() error {
	names, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, n := range names { // sorted by name
		f, err := os.Open(filepath.Join(r.out, n.Name()))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", h.Sum(nil), n.Name())
	}
	fmt.Print(b.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
