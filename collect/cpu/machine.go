package cpu

import (
	"errors"
	"strconv"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Machine describes the machine, its CPUs and their frequencies, by uname(2) and
// /sys/devices/system/cpu.
type Machine struct{}

// Stats returns system.info, cpu.online and cpu.frequency.
func (Machine) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID:   "system.info",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "1: name, kernel and hardware of the machine",
			Fields: []measure.Field{
				{Name: "host", Type: measure.Word, Help: "host name"},
				{Name: "kernel", Type: measure.Word, Help: "release, as uname -r"},
				{
					Name: "arch",
					Type: measure.Word,
					Help: "as uname -m",
				},
				{
					Name: "machine",
					Type: measure.Word,
					Help: "maker and product; empty if the firmware does not have them",
				},
			},
		},
		{ID: "cpu.online", Kind: measure.Level, Unit: measure.Count, Help: "1 for an online " +
			"CPU, 0 for an offline one; their sum is the number of online CPUs",
			Fields: []measure.Field{
				{Name: "cpu", Type: measure.Number, Help: "CPU number"},
				{Name: "socket", Type: measure.Word, Help: "physical package; empty while offline"},
				{Name: "core", Type: measure.Word, Help: "core within the socket; CPUs of one " +
					"core are hardware threads; empty while offline"},
			}},
		{
			ID:   "cpu.frequency",
			Kind: measure.Level,
			Unit: measure.Hertz,
			Fold: measure.Mean,
			Help: "frequency of a CPU (cpufreq scaling_cur_freq); no row if the kernel does " +
				"not know it, as in most virtual machines",
			Fields: []measure.Field{{Name: "cpu", Type: measure.Number, Help: "CPU number"}},
		},
	}
}

// Open lists the CPUs and opens their frequency files. An error means that nothing can be measured.
// The caller closes the Reading.
func (Machine) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &machineReading{root: env.Root, frequencies: want.Stat("cpu.frequency")}
	if want.Stat("system.info") {
		r.info = describeMachine(env.Root)
	}
	return r, nil
}

// describeMachine returns host, kernel, arch and machine.
func describeMachine(root kernel.Root) []string {
	text := func(b []byte, err error) string {
		if err != nil {
			return ""
		}
		return strings.Trim(string(b), " \n\x00")
	}
	var uts unix.Utsname
	arch := ""
	if unix.Uname(&uts) == nil {
		arch = unix.ByteSliceToString(uts.Machine[:])
	}
	model := text(proc.ReadSys(root, "firmware/devicetree/base/model", nil))
	if model == "" {
		vendor, product := text(proc.ReadSys(root, "class/dmi/id/sys_vendor", nil)), text(
			proc.ReadSys(root, "class/dmi/id/product_name", nil),
		)
		model = strings.TrimSpace(vendor + " " + strings.TrimPrefix(product, vendor+" "))
	}
	return []string{
		text(proc.ReadProc(root, "sys/kernel/hostname", nil)),
		text(proc.ReadProc(root, "sys/kernel/osrelease", nil)),
		arch,
		model,
	}
}

type machineReading struct {
	root        kernel.Root
	info        []string
	frequencies bool
	online      []byte // content of the file
	file        *proc.File
	cpus        []machineCPU
	numbers     collect.NumberLabels
	infoLabels  collect.WordLabels
	buf         []byte
}

type machineCPU struct {
	cpu          int
	online       bool
	socket, core string
	frequency    *proc.File // nil: none
}

func (r *machineReading) Read(out *collect.Out) error {
	if r.info != nil {
		out.Table("system.info").Put(1, r.infoLabels.Of(out, r.info)...)
	}
	online, frequency := out.Table("cpu.online"), out.Table("cpu.frequency")
	if online == nil && frequency == nil {
		return nil
	}
	if err := r.look(); err != nil {
		return err
	}
	any := false
	for i := range r.cpus {
		c := &r.cpus[i]
		on := 0.0
		if c.online {
			on = 1
		}
		online.Put(on, r.numbers.Of(out, c.cpu), out.Label(c.socket), out.Label(c.core))
		if c.frequency == nil {
			continue
		}
		any = true
		b, err := c.frequency.ReadOneInto(r.buf)
		r.buf = b
		v := measure.NaN
		if err == nil {
			s := proc.Scan(b)
			if khz := s.Uint(); s.Err() == nil && khz > 0 {
				v = float64(khz) * 1e3
			}
		}
		frequency.Put(v, r.numbers.Of(out, c.cpu))
	}
	if !any {
		frequency.Unmeasured("no CPU here shows its frequency (no cpufreq driver, as in most " +
			"virtual machines)")
	}
	return nil
}

// look reads the list of online CPUs. If it changed, it reads all CPUs again.
func (r *machineReading) look() error {
	if r.file == nil {
		f, err := proc.OpenSys(r.root, "devices/system/cpu/online")
		if err != nil {
			return err
		}
		r.file = f
	}
	b, err := r.file.ReadOne()
	if err != nil {
		return err
	}
	if string(b) == string(r.online) && r.cpus != nil {
		return nil
	}
	on, ok := procfs.ParseCPUList(nil, b)
	if !ok || len(on) == 0 {
		return errors.New("read /sys/devices/system/cpu/online: no list of CPUs")
	}
	r.online = append(r.online[:0], b...)
	present := on
	if b, err := proc.ReadSys(r.root, "devices/system/cpu/present", nil); err == nil {
		if p, ok := procfs.ParseCPUList(nil, b); ok && len(p) > 0 {
			present = p
		}
	}
	r.closeCPUs()
	up := map[int]bool{}
	for _, n := range on {
		up[n] = true
	}
	for _, n := range present {
		c := machineCPU{cpu: n, online: up[n]}
		if c.online {
			dir := "devices/system/cpu/cpu" + strconv.Itoa(n)
			c.socket, c.core = procfs.ReadSysWord(
				r.root, dir+"/topology/physical_package_id",
			), procfs.ReadSysWord(r.root, dir+"/topology/core_id")
			if r.frequencies {
				if f, err := proc.OpenSys(r.root, dir+"/cpufreq/scaling_cur_freq"); err == nil {
					c.frequency = f
				}
			}
		}
		r.cpus = append(r.cpus, c)
	}
	return nil
}

func (r *machineReading) closeCPUs() {
	for _, c := range r.cpus {
		c.frequency.Close()
	}
	r.cpus = nil
}

func (r *machineReading) Close() {
	r.closeCPUs()
	r.file.Close()
}
