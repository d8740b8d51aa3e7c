package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

const polledEach = 32 // devices per CPU

// deviceMembers are byte offsets: of dev in napi_struct and sk_buff, and of members of net_device.
// napi_struct.dev, sk_buff.dev, and of net_device
type deviceMembers struct{ polled, received, name, net, inum int16 }

// A DeviceTime is the CPU time of a device's packets in softirq NET_RX on a CPU.
type DeviceTime struct {
	Device string
	Net    uint32 // inode of its network namespace, as in /proc/PID/ns/net
	CPU    int
	Time   time.Duration // since the previous Each
}

// A deviceKey identifies a device on a CPU by the address of its net_device. A deviceSum is its
// time since the last reading, with its name and namespace from its first packet since then. In the
// machine's byte order:
//
//	0        8     16        0      8      24    28   32
//	| device | cpu |         | time | name | net | 0 |
type (
	deviceKey [16]byte
	deviceSum [32]byte
)

// OpenDevices begins to divide the time of NET_RX by device. It may be called once. The caller
// closes the DeviceTimes. It reads the kernel's types.
//
// A packet's time belongs to the device by which it came in (net:netif_receive_skb). It lasts from
// there until the next packet, or until the driver has polled (napi:napi_poll). The time before the
// first packet belongs to that packet's device. A bridge is the device of the packets that pass it.
//
// Requires Linux 5.6 with BTF, CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported or
// measure.ErrDenied.
func (h *Handlers) OpenDevices(types *Types) (*DeviceTimes, error) {
	spec, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	w := &structWalk{spec: spec}
	device := w.named("net_device")
	at := &deviceMembers{polled: w.at(w.named("napi_struct"), "dev"),
		received: w.at(w.named("sk_buff"), "dev"),
		name:     w.at(device, "name"), net: w.at(device, "nd_net"),
		inum: w.at(w.named("net"), "ns", "inum")}
	if w.err != nil {
		return nil, w.err
	}
	n := max(256, polledEach*h.cpus)
	d := &DeviceTimes{keys: make([]deviceKey, n), sums: make([]deviceSum, n)}
	if err := d.open(h, at); err != nil {
		d.Close()
		return nil, Classify(types.root, err)
	}
	return d, nil
}

// DeviceTimes are the times of Handlers by device.
type DeviceTimes struct {
	times *ebpf.Map
	progs []*ebpf.Program
	links []*Link
	keys  []deviceKey // buffer of Each
	sums  []deviceSum
}

func (d *DeviceTimes) open(h *Handlers, at *deviceMembers) (err error) {
	if d.times, err = NewMap(&ebpf.MapSpec{Name: "culprit_devices", Type: ebpf.Hash,
		KeySize: uint32(len(deviceKey{})), ValueSize: uint32(len(deviceSum{})),
		MaxEntries: uint32(len(d.keys))}); err != nil {
		return fmt.Errorf("make a map: %w", err)
	}
	for _, p := range []struct {
		name, to string
		program  asm.Instructions
	}{{"polled", "napi_poll", h.polledProgram(d.times, at)},
		{"received", "netif_receive_skb", h.receivedProgram(d.times, at)}} {
		prog, err := loadRaw(p.name, p.program)
		if err != nil {
			return err
		}
		d.progs = append(d.progs, prog)
		l, err := AttachRawTracepoint(prog, p.to, 0)
		if err != nil {
			return fmt.Errorf("attach to %s: %w", p.to, err)
		}
		d.links = append(d.links, l)
	}
	return nil
}

// Each calls f with each device's time on each CPU since the previous Each. Time that is added
// during the call may be lost. The error is of reading the map.
func (d *DeviceTimes) Each(f func(DeviceTime)) error {
	var at ebpf.MapBatchCursor
	// What is read is taken out: a device that ends leaves nothing, and one that gets another name
	// is known by it from now on.
	n, err := d.times.BatchLookupAndDelete(&at, d.keys, d.sums, nil) // the buffers fit all entries
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read times of devices: %w", err)
	}
	for i := range d.sums[:n] {
		s := &d.sums[i]
		name, _, _ := bytes.Cut(s[8:24], []byte{0})
		f(DeviceTime{string(name), native.Uint32(s[24:]), int(native.Uint64(d.keys[i][8:])),
			time.Duration(native.Uint64(s[:]))})
	}
	return nil
}

// Cost returns the run time of the programs since the start, on all CPUs; 0 where the kernel does
// not report it to this user, and for nil.
func (d *DeviceTimes) Cost() time.Duration {
	if d == nil {
		return 0
	}
	return runtimeOf(d.progs)
}

// Close unloads the programs. A second Close does nothing.
func (d *DeviceTimes) Close() {
	if d == nil {
		return
	}
	detach(d.links, d.progs)
	d.times.Close()
	*d = DeviceTimes{}
}

// Where the programs have what they read, on the stack behind what stateOf has there.
const (
	scratchAt = -16
	keyAt     = -32 // a deviceKey
	sumAt     = -64 // a deviceSum
	sumNameAt = sumAt + 8
	sumNetAt  = sumAt + 24
)

// readKernel copies size bytes from the memory at a register to the stack; unreadable bytes are 0.
func readKernel(to, size int32, from asm.Register, off int16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, to),
		asm.Mov.Imm(asm.R2, size),
		asm.Mov.Reg(asm.R3, from), asm.Add.Imm(asm.R3, int32(off)),
		asm.FnProbeReadKernel.Call(),
	}
}

// sinceMark computes the time since the mark in r8 and sets the mark. The device of that time is
// loaded into r6, and r9 is stored in its place.
func sinceMark() asm.Instructions {
	return asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.R7, stateStolen, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1),
		asm.LoadMem(asm.R8, asm.R7, stateMark, asm.DWord),
		asm.StoreMem(asm.R7, stateMark, asm.R0, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R8),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.LoadMem(asm.R6, asm.R7, stateDevice, asm.DWord),
		asm.StoreMem(asm.R7, stateDevice, asm.R9, asm.DWord),
	}
}

// inNetRX jumps to the end unless NET_RX runs on this CPU. It does not run in a thread that polls,
// nor when it began before the programs were attached.
func inNetRX() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, stateSoft, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R7, stateKind, asm.DWord),
		asm.JNE.Imm(asm.R1, netRXSoftirq, "end"),
	}
}

const netRXSoftirq = 3 // NET_RX_SOFTIRQ

// receivedProgram runs when a packet is passed up. The time until now belongs to the previous
// packet's device. While the device stays the same there is nothing to do.
//
//	r6 the packet, then the device of the time
//	r7 the CPU's state
//	r8 the time
//	r9 the packet's device
func (h *Handlers) receivedProgram(times *ebpf.Map, at *deviceMembers) asm.Instructions {
	p := append(asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord)}, h.stateOf()...)
	p = append(p, inNetRX()...)
	p = append(p, readKernel(scratchAt, 8, asm.R6, at.received)...)
	p = append(p,
		asm.LoadMem(asm.R9, asm.RFP, scratchAt, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, stateDevice, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R9, "end"),
		asm.JNE.Imm(asm.R1, 0, "another"),
		asm.StoreMem(asm.R7, stateDevice, asm.R9, asm.DWord), // the first packet
		asm.Ja.Label("end"))
	another := sinceMark()
	another[0] = another[0].WithSymbol("another")
	return append(append(p, another...), addTime(times, at)...)
}

// polledProgram runs after a driver has polled. The device is that of the last packet, or the
// driver's where no packet was passed up, as with XDP. Its arguments are the napi_struct, the
// number of packets and the budget. The registers are those of receivedProgram.
func (h *Handlers) polledProgram(times *ebpf.Map, at *deviceMembers) asm.Instructions {
	p := append(asm.Instructions{asm.LoadMem(asm.R9, asm.R1, 0, asm.DWord)}, h.stateOf()...)
	p = append(p, inNetRX()...)
	p = append(p, readKernel(scratchAt, 8, asm.R9, at.polled)...)
	p = append(p, asm.Mov.Imm(asm.R9, 0))
	p = append(p, sinceMark()...)
	p = append(p,
		asm.JNE.Imm(asm.R6, 0, "of"),
		asm.LoadMem(asm.R6, asm.RFP, scratchAt, asm.DWord),
		asm.JEq.Imm(asm.R6, 0, "end")) // the backlog queue of a CPU, which was empty
	return append(p, addTime(times, at)...)
}

// addTime adds r8 to the sum of the device in r6. It begins at "of" and contains "end".
func addTime(times *ebpf.Map, at *deviceMembers) asm.Instructions {
	p := asm.Instructions{
		asm.StoreMem(asm.RFP, keyAt, asm.R6, asm.DWord).WithSymbol("of"),
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, keyAt+8, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.LoadMapPtr(asm.R1, times.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "new"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), // the key has the CPU
		asm.Add.Reg(asm.R1, asm.R8),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Ja.Label("end"),
		asm.StoreMem(asm.RFP, sumAt, asm.R8, asm.DWord).WithSymbol("new"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, sumNetAt, asm.R1, asm.DWord),
	}
	p = append(p, readKernel(sumNameAt, 16, asm.R6, at.name)...)
	p = append(p, readKernel(scratchAt, 8, asm.R6, at.net)...)
	p = append(p, asm.LoadMem(asm.R6, asm.RFP, scratchAt, asm.DWord))
	p = append(p, readKernel(sumNetAt, 4, asm.R6, at.inum)...)
	return append(p,
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, sumAt),
		asm.LoadMapPtr(asm.R1, times.FD()),
		asm.Mov.Imm(asm.R4, 0),
		// where it is full the time stays with the softirq, and with no device
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return())
}
