package process

import (
	"errors"
	"slices"

	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// mostFiles is how many files are kept open. Each uses 4 KiB of kernel memory for its text and
// about 1 KiB more.
const mostFiles = 8192

// errNoProcesses means that /proc is not mounted, or is empty.
var errNoProcesses = errors.New("/proc has no process: it is not mounted here, or is a " +
	"directory of another file system")

// list updates procs from /proc: ended ones go to gone, new ones are empty.
func (r *processReading) list() error {
	var err error
	if r.walk.look(r.dir) && r.walk.whole {
		r.pids = r.walk.list(r.pids[:0])
		r.spaces.Report(r.walk.nets)
	} else if r.pids, err = r.dir.ListPIDs(r.pids[:0]); err != nil {
		return err
	}
	if len(r.pids) == 0 { // at least this process should be there
		return errNoProcesses
	}
	if !slices.IsSorted(r.pids) {
		slices.Sort(r.pids)
	}
	old, next := r.procs, r.other[:0]
	for _, pid := range r.pids {
		for len(old) > 0 && old[0].pid < pid {
			r.markEnded(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].pid == pid {
			next, old = append(next, old[0]), old[1:]
			continue
		}
		next = append(next, &process{pid: pid})
	}
	for _, p := range old {
		r.markEnded(p)
	}
	clear(r.procs[len(r.procs):cap(r.procs)])
	r.procs, r.other = next, r.procs
	for _, p := range r.procs {
		p.ran, p.pulsed, p.delta = false, false, nil
	}
	return nil
}

// markEnded marks a process as ended.
func (r *processReading) markEnded(p *process) {
	if p.dead {
		return
	}
	p.dead = true
	if p.known {
		r.ended++
		r.gone = append(r.gone, p)
	}
	r.drop(p)
}

// drop closes the files of a process.
func (r *processReading) drop(p *process) {
	r.closeFile(&p.file)
	r.closeFile(&p.ioFile)
	r.closeFile(&p.pulse)
	for _, t := range p.threads {
		r.closeFile(&t.file)
	}
	p.threads = nil
}

func (r *processReading) closeFile(f **proc.File) {
	if *f != nil {
		(*f).Close()
		*f = nil
		r.keep++
	}
}

// forget removes ended processes from the list.
func (r *processReading) forget() {
	r.procs = slices.DeleteFunc(r.procs, func(p *process) bool { return p.dead })
}

// read reads a file of a process into r.buf. With keep it keeps the file open if it may.
func (r *processReading) read(
	p *process, name string, file **proc.File, keep bool,
) ([]byte, error) {
	var b []byte
	var err error
	if *file == nil && keep && r.keep > 0 {
		f, err := r.dir.OpenPID(p.pid, name)
		switch {
		case err == nil:
			*file = f
			r.keep--
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			r.keep = 0
		default:
			return nil, err
		}
	}
	if *file != nil {
		b, err = (*file).ReadOneInto(r.buf)
	} else {
		return r.readOnce(p.pid, name)
	}
	if cap(b) > cap(r.buf) {
		r.buf = b[:cap(b)]
	}
	return b, err
}

// readOnce is read without keeping the file open.
func (r *processReading) readOnce(pid int32, name string) ([]byte, error) {
	b, err := r.dir.ReadPIDOne(pid, name, r.buf)
	if cap(b) > cap(r.buf) {
		r.buf = b[:cap(b)]
	}
	return b, err
}
