package cases

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vnetHeader is what stands before each frame of a tap with IFF_VNET_HDR (virtio_net_hdr,
// linux/virtio_net.h):
//
//	0 flags  1 gso_type  2-3 hdr_len  4-5 gso_size  6-7 csum_start  8-9 csum_offset
//
// The numbers are little-endian on the supported machines.
const vnetHeader = 10

// wireExtra is what a frame takes on an Ethernet wire beyond its bytes in memory: preamble 8, check
// sum 4, gap 12.
const wireExtra = 24

// Wire says how a cable behaves and what its two ends tell of it.
type Wire struct {
	Mbit int // speed that the ends report, and that frames pass at
	Best int // the best speed that the ends support and advertise; 0: nothing beyond Mbit

	Delay time.Duration // from one end to the other
}

// Cable lays a cable between two hosts: taps joined by a process that passes frames at the wire's
// speed, preamble and gaps included, so that ethtool reports its true speed, as it does not for a
// veth. It costs CPU: some 15 % of one at 1 Gbit/s.
type Cable struct {
	A, B       *Host
	DevA, DevB string
	Wire
}

// Cables lays cables, all by one process called "cable".
func (l *Lab) Cables(cables ...Cable) {
	var args []string
	for _, c := range cables {
		args = append(
			args,
			fmt.Sprintf(
				"%s/%s,%s/%s,%d,%d,%s", c.A.NS, c.DevA, c.B.NS, c.DevB, c.Mbit,
				max(c.Best, c.Mbit), c.Delay,
			),
		)
	}
	l.Start(Program{Name: "cable", Act: "cable", Args: args})
	for _, c := range cables {
		// A long queue of super-frames would stand for seconds of line time.
		c.A.ip("link", "set", c.DevA, "txqueuelen", "64", "up")
		c.B.ip("link", "set", c.DevB, "txqueuelen", "64", "up")
	}
}

func actCable(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	f.Parse(args)
	for _, spec := range f.Args() { // NS/DEV,NS/DEV,MBIT,BEST,DELAY
		w := strings.Split(spec, ",")
		if len(w) != 5 {
			return fmt.Errorf("not a cable: %s", spec)
		}
		mbit, err := strconv.Atoi(w[2])
		if err != nil {
			return err
		}
		best, err := strconv.Atoi(w[3])
		if err != nil {
			return err
		}
		delay, err := time.ParseDuration(w[4])
		if err != nil {
			return err
		}
		var ends [2]int
		for i := range ends {
			ns, dev, _ := strings.Cut(w[i], "/")
			if err := inside(ns, func() (err error) {
				ends[i], err = openTap(dev, mbit, best)
				return err
			}); err != nil {
				return fmt.Errorf("lay %s: %w", w[i], err)
			}
		}
		go carry(ends[0], mbit, deliver(ends[1], delay, t))
		go carry(ends[1], mbit, deliver(ends[0], delay, t))
	}
	t.ready()
	<-ctx.Done()
	return nil
}

// openTap makes a tap in the thread's namespace, which takes checksum and segmentation work off the
// kernel, and sets its speed (tun_set_link_ksettings, drivers/net/tun.c: it keeps any value).
func openTap(dev string, mbit, best int) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	r, err := unix.NewIfreq(dev)
	if err != nil {
		return -1, err
	}
	r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return -1, fmt.Errorf("make tap: %w", err)
	}
	const offloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads); err != nil {
		return -1, fmt.Errorf("set tap offloads: %w", err)
	}
	return fd, setLink(dev, mbit, best)
}

// linkSettings is struct ethtool_link_settings (linux/ethtool.h) with three masks of up to 4 words
// after it. A kernel wants the exact number of words; it has had 3 or 4 for years (92 to 121
// modes).
type linkSettings struct {
	cmd, speed                                uint32
	duplex, port, phy, autoneg, mdio          uint8
	mdix, mdixCtrl                            uint8
	words                                     int8
	transceiver, master, masterState, matched uint8
	_                                         [7]uint32
	// Supported, advertised, the partner's: each of `words` words.
	masks [3 * 8]uint32
}

// setLink sets speed and modes of an interface of the thread's namespace.
func setLink(dev string, mbit, best int) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	var ifr struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(ifr.name[:unix.IFNAMSIZ-1], dev)
	ls := &linkSettings{cmd: unix.ETHTOOL_GLINKSETTINGS}
	ifr.data = unsafe.Pointer(ls)
	ioctl := func() error {
		_, _, e := unix.Syscall(
			unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)),
		)
		runtime.KeepAlive(ls)
		if e != 0 {
			return e
		}
		return nil
	}
	// With 0 words the kernel answers with minus the number it wants.
	if err := ioctl(); err != nil {
		return fmt.Errorf("ask the size of link modes: %w", err)
	}
	words := int(-ls.words)
	if words < 1 || 3*words > len(ls.masks) {
		return fmt.Errorf("link modes of %d words", ls.words)
	}
	*ls = linkSettings{
		cmd:     unix.ETHTOOL_SLINKSETTINGS,
		speed:   uint32(mbit),
		duplex:  1,
		autoneg: 1,
		words:   int8(words),
	}
	// Bits of ETHTOOL_LINK_MODE_*: full-duplex twisted-pair modes and autonegotiation.
	for _, m := range []struct{ mbit, bit int }{
		{10, 1}, {100, 3}, {1000, 5}, {2500, 47}, {10000, 12},
	} {
		if m.mbit <= best {
			ls.masks[m.bit/32] |= 1 << (m.bit % 32)
			ls.masks[words+m.bit/32] |= 1 << (m.bit % 32)
		}
		if m.mbit <= mbit { // the partner, or the cable between, can do no more
			ls.masks[2*words+m.bit/32] |= 1 << (m.bit % 32)
		}
	}
	ls.masks[0] |= 1<<6 | 1<<7 // autonegotiation, twisted pair
	ls.masks[words] |= 1<<6 | 1<<7
	ls.masks[2*words] |= 1 << 6
	if err := ioctl(); err != nil {
		return fmt.Errorf("set link speed %d: %w", mbit, err)
	}
	return nil
}

// deliver returns a function that puts a frame into a tap, or that has another thread do it after a
// delay. mostUnderWay frames may be under way.
func deliver(to int, delay time.Duration, t *tally) func(frame []byte) {
	put := func(frame []byte) {
		if _, err := unix.Write(to, frame); err != nil {
			t.errors.Add(1) // the interface is down, or takes no more
			return
		}
		t.done(int64(len(frame)-vnetHeader), 0)
	}
	if delay == 0 {
		return put
	}
	type flight struct {
		due   time.Time
		frame []byte
	}
	const mostUnderWay = 1024
	way := make(chan flight, mostUnderWay)
	go func() {
		runtime.LockOSThread()
		for f := range way {
			time.Sleep(time.Until(f.due))
			put(f.frame)
		}
	}()
	return func(frame []byte) { way <- flight{time.Now().Add(delay), bytes.Clone(frame)} }
}

// carry passes frames one way at the wire's speed.
func carry(from, mbit int, put func(frame []byte)) {
	runtime.LockOSThread() // both calls block; a thread of its own saves handing over at each
	b := make([]byte, 1<<17)
	var free time.Time // when the wire will have carried what it was given
	for {
		n, err := unix.Read(from, b)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return
		}
		if n <= vnetHeader {
			continue
		}
		now := time.Now()
		if late := now.Add(-2 * time.Millisecond); free.Before(
			late,
		) { // a late wake-up of this process is no idle wire
			free = late
		}
		free = free.Add(time.Duration(float64(wireBytes(b[:n])) * 8 * 1000 / float64(mbit)))
		if ahead := free.Sub(now); ahead > 250*time.Microsecond {
			time.Sleep(ahead - 150*time.Microsecond)
		}
		put(b[:n])
	}
}

// wireBytes is what a frame read from a tap takes on the wire: a segmented super-frame takes its
// headers once a segment.
func wireBytes(b []byte) int {
	frame := len(b) - vnetHeader
	kind, size := b[1], int(binary.LittleEndian.Uint16(b[4:]))
	head := int(binary.LittleEndian.Uint16(b[2:]))
	if kind == 0 || size == 0 || frame <= head {
		return frame + wireExtra
	}
	segments := (frame - head + size - 1) / size
	return frame - head + segments*(head+wireExtra)
}
