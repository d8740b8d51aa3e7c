package cpu

import (
	"errors"
	"io/fs"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Pressure reads /proc/pressure (PSI): how long some, or all, of the threads with work to do waited
// for a resource. See Documentation/accounting/psi.rst.
type Pressure struct{}

func pressureFields() []measure.Field {
	return []measure.Field{{Name: "resource", Type: measure.Word, Help: "cpu memory io irq"},
		{Name: "scope", Type: measure.Word, Help: "some: at least one thread waited; full: all " +
			"threads waited, so no work was done"}}
}

// Stats returns pressure.time.
func (Pressure) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID:     "pressure.time",
			Kind:   measure.Delta,
			Unit:   measure.Nanoseconds,
			Fold:   measure.Max,
			Help:   "time in which threads waited for a resource (/proc/pressure)",
			Fields: pressureFields(),
		},
	}
}

const noPSI = "this kernel has no pressure stall information: built without CONFIG_PSI, or " +
	"switched off at boot (psi=1 turns it on)"

// Open opens the files of /proc/pressure that exist. An error means that nothing can be measured.
// The caller closes the Reading.
func (Pressure) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &pressureReading{}
	for _, name := range procfs.PressureResources() {
		f, err := proc.OpenProc(env.Root, "pressure/"+name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, measure.ErrUnsupported) {
			continue
		}
		if err != nil {
			r.Close()
			return nil, err
		}
		r.files = append(r.files, pressureFile{name: name, file: f})
	}
	if len(r.files) == 0 {
		return nil, collect.Unsupported(noPSI)
	}
	return r, nil
}

type pressureReading struct {
	files []pressureFile
	last  collect.Counters[string]
}

type pressureFile struct {
	name string
	file *proc.File
}

func (r *pressureReading) Read(out *collect.Out) error {
	t := out.Table("pressure.time")
	read := false
	for i := range r.files {
		f := &r.files[i]
		b, err := f.file.ReadOne()
		if errors.Is(err, measure.ErrUnsupported) {
			continue // exists but is switched off: EOPNOTSUPP
		}
		if err != nil {
			t.Note("read " + f.file.Path() + ": " + err.Error())
			continue
		}
		some, full, hasSome, hasFull := procfs.ParsePressure(b)
		read = true
		d, ok := r.last.Diff(out, f.name, false, some, full)
		if !ok {
			continue
		}
		if hasSome {
			t.Row(d[0]*1e3, f.name, "some")
		}
		if hasFull {
			t.Row(d[1]*1e3, f.name, "full")
		}
	}
	if !read {
		return collect.Unsupported(noPSI)
	}
	return nil
}

func (r *pressureReading) Close() {
	for _, f := range r.files {
		f.file.Close()
	}
}
