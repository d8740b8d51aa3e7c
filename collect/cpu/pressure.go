package cpu

import (
	"errors"
	"io/fs"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"
)

// Pressure reads /proc/pressure (PSI): for how long some, or all, of the threads that had work to do were held up by the lack
// of a resource. See Documentation/accounting/psi.rst.
type Pressure struct{}

func pressureFields() []measure.Field {
	return []measure.Field{{Name: "resource", Type: measure.Word, Help: "cpu memory io irq"},
		{Name: "scope", Type: measure.Word, Help: "some: at least one thread was held up; full: all were, so nothing was done"}}
}

// Stats lists pressure.time.
func (Pressure) Stats() []measure.Stat {
	return []measure.Stat{{ID: "pressure.time", Kind: measure.Delta, Unit: measure.Nanoseconds, Fold: measure.Max, Help: "time in which threads were held up for want of a resource (/proc/pressure)",
		Fields: pressureFields()}}
}

const noPSI = "this kernel has no pressure stall information: built without CONFIG_PSI, or switched off at boot (psi=1 turns it on)"

// Open opens what there is in /proc/pressure.
func (Pressure) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &pressureReading{}
	for _, name := range procfs.PressureResources() {
		f, err := env.Root.OpenProc("pressure/" + name)
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
	file *kernel.File
}

func (r *pressureReading) Read(out *collect.Out) error {
	t := out.Table("pressure.time")
	read := false
	for i := range r.files {
		f := &r.files[i]
		b, err := f.file.ReadOne()
		if errors.Is(err, measure.ErrUnsupported) {
			continue // there, but switched off: EOPNOTSUPP
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
