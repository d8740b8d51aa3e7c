package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"culprit/kernel/bpf/program"

	"github.com/cilium/ebpf"
)

const polledEach = 32 // devices per CPU

// A DeviceTime is the CPU time of a device's packets in softirq NET_RX on a CPU.
type DeviceTime struct {
	Device string
	Net    uint32 // inode of its network namespace, as in /proc/PID/ns/net
	CPU    int
	Time   time.Duration // since the previous Each
}

// A deviceKey identifies a device on a CPU by the address of its net_device. A deviceSum is its
// time since the last reading, with its name and namespace from its first packet since then
// (program/devices.c). In the machine's byte order:
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
	n := max(256, polledEach*h.cpus)
	d := &DeviceTimes{keys: make([]deviceKey, n), sums: make([]deviceSum, n)}
	if err := d.open(h, types); err != nil {
		d.Close()
		return nil, Classify(types.root, err)
	}
	return d, nil
}

// DeviceTimes are the times of Handlers by device.
type DeviceTimes struct {
	objects program.DevicesObjects
	links   []*Link
	keys    []deviceKey // buffer of Each
	sums    []deviceSum
}

func (d *DeviceTimes) open(h *Handlers, types *Types) error {
	spec, err := program.LoadDevices()
	if err != nil {
		return err
	}
	spec.Maps["culprit_devices"].MaxEntries = uint32(len(d.keys))
	// The state of the CPUs is that of the programs of h.
	shared := map[string]*ebpf.Map{"culprit_irqs": h.objects.CulpritIrqs}
	if err := load(spec, &d.objects, types, shared); err != nil {
		return err
	}
	for _, a := range []struct {
		prog *ebpf.Program
		to   string
	}{{d.objects.Polled, "napi_poll"}, {d.objects.Received, "netif_receive_skb"}} {
		l, err := AttachRawTracepoint(a.prog, a.to, 0)
		if err != nil {
			return fmt.Errorf("attach to %s: %w", a.to, err)
		}
		d.links = append(d.links, l)
	}
	return nil
}

// Each calls f with each device's time on each CPU since the previous Each. Time that is added
// during the call may be lost. The error is of reading the map.
func (d *DeviceTimes) Each(f func(DeviceTime)) error {
	var at ebpf.MapBatchCursor
	// Entries are deleted as they are read: a device that ends leaves none, and a renamed one gets
	// its new name. The buffers fit all entries.
	n, err := d.objects.CulpritDevices.BatchLookupAndDelete(&at, d.keys, d.sums, nil)
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
	return runtimeOf(d.objects.Polled, d.objects.Received)
}

// Close unloads the programs. A second Close does nothing.
func (d *DeviceTimes) Close() {
	if d == nil {
		return
	}
	detach(d.links)
	d.objects.Close() //nolint:errcheck // it is of no more use
	*d = DeviceTimes{}
}
