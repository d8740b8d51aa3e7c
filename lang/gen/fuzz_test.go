package gen

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// FuzzGenerate generates programs of each kind from every text that compiles, for a kernel with all
// features and for one with few. Failures must be one of two kinds of errors; the running kernel,
// if accessible, must accept the programs generated for it.
func FuzzGenerate(f *testing.F) {
	for _, pattern := range []string{"testdata/*.d", "../ir/testdata/*.d",
		"../check/testdata/ok/*.d"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if filepath.Dir(file) == "testdata" { // one program per line
				for line := range strings.Lines(string(text)) {
					f.Add(line, uint16(256))
				}
				continue
			}
			f.Add(string(text), uint16(64))
		}
	}
	here := kernelHere()
	kernels := []Kernel{here, {RingBuffer: true, CPUs: here.CPUs}, {CPUs: 1}}
	heapbound.Fuzz(f, func(t *testing.T, text string, strsize uint16) {
		p, err := irtest.Compile(
			text, check.Options{StrSize: max(8, int64(strsize)), All: map[string]string{}},
		)
		if p == nil {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var all []int
		for i := range p.Clauses {
			all = append(all, i)
		}
		if len(all) == 0 {
			return
		}
		for i, k := range kernels {
			o, err := Maps(p, k, Limits{Ring: 1 << 12, Dynamic: 16, AggKeys: 16, Stacks: 16})
			if !checkError(t, err) {
				continue
			}
			if _, err := New(p, k).Helpers(); !checkError(t, err) {
				continue
			}
			for _, site := range []check.Site{check.SiteRun, check.SiteRawTracepoint,
				check.SiteSyscallEntry, check.SiteSyscallReturn, check.SitePerfEvent,
				check.SiteKprobe, check.SiteKretprobe, check.SiteUprobe} {
				c, err := Assemble(
					p, k, []*check.Probe{{ID: 1, Provider: "dtrace", Name: "BEGIN", Site: site}},
					all,
				)
				if checkError(t, err) && i == 0 && site == check.SiteRun {
					accepted(t, p, o, c)
				}
			}
		}
	})
}

// checkError reports whether there is a result; without one the error must be one that users may
// see.
func checkError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, measure.ErrUnsupported) && !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	return err == nil
}

// accepted loads a program. The verifier may refuse it only as too complex, or for the machine's
// limits.
func accepted(t *testing.T, p *ir.Program, o *Object, c *Code) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	r := &running{t: t, p: p, maps: map[string]*ebpf.Map{}}
	defer func() {
		for _, m := range r.maps {
			m.Close()
		}
	}()
	size := 0
	for _, specs := range []map[string]*ebpf.MapSpec{o.Maps, c.Maps} {
		for _, s := range specs {
			size += int(s.ValueSize) * int(s.MaxEntries)
		}
	}
	const much = 64 << 20
	if size > much || len(o.Maps)+len(c.Maps) > 60 {
		return
	}
	r.make(o.Maps)
	r.make(c.Maps)
	ins := append(c.Instructions[:0:0], c.Instructions...)
	for name, m := range r.maps {
		if err := ins.AssociateMap(name, m); err != nil &&
			!strings.Contains(err.Error(), "unreferenced") {
			t.Fatal(err)
		}
	}
	prog, err := ebpf.NewProgram(
		&ebpf.ProgramSpec{
			Type:         c.Type,
			AttachType:   c.Attach,
			AttachTo:     c.AttachTo,
			Instructions: ins,
			License:      "GPL",
		},
	)
	if err == nil {
		prog.Close()
		return
	}
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) ||
		strings.Contains(err.Error(), "too complex") {
		return
	}
	t.Fatalf("%+v", err)
}
