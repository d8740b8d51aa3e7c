package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loopDevice makes a block device of a file of 8 MiB in memory.
func loopDevice(name string) (device string, undo func(), err error) {
	file, err := os.Create(name)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	if err := file.Truncate(8 << 20); err != nil {
		return "", nil, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", nil, err
	}
	device = fmt.Sprintf("/dev/loop%d", n)
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer loop.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(file.Fd())); err != nil {
		return "", nil, err
	}
	return device, func() {
		if f, err := os.Open(device); err == nil {
			unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0)
			f.Close()
		}
		os.Remove(name)
	}, nil
}

// writing writes blocks of 4 KiB past the page cache, 20 a second.
func writing(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", args[0], err)
	}
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for n := int64(0); ; n++ {
		if _, err := unix.Pwrite(fd, b, n%1024*4096); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func ioctl(fd uintptr, request uintptr, argument unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(argument)); e != 0 {
		return e
	}
	return nil
}

// Ioctls of include/uapi/linux/raid/md_u.h: _IOW(9, 0x23, 72 bytes), _IOW(9, 0x21, 20 bytes),
// _IOW(9, 0x30, 12 bytes), _IO(9, 0x32).
const (
	setArrayInfo = 0x40480923
	addNewDisk   = 0x40140921
	runArray     = 0x400c0930
	stopArray    = 0x00000932
)

// array makes an md array of level 1 with two members and writes to it. have is how many of the
// members are present.
func array(have int) func() (func(), error) {
	return func() (undo func(), err error) {
		var all []func()
		undo = func() {
			for i := range all {
				all[len(all)-1-i]()
			}
		}
		if err := makeNode("/dev/md0", 9, 0); err != nil {
			return undo, err
		}
		md, err := os.OpenFile("/dev/md0", os.O_RDWR, 0)
		if err != nil {
			return undo, err
		}
		defer md.Close()
		// mdu_array_info_t: version 0.90.0, ctime, level, size in KiB, disks, raid disks, minor,
		// not persistent, utime, state (clean), active, working, failed, spare, layout, chunk.
		info := [18]int32{0, 90, 0, 0, 1, 8 << 10, int32(have), 2, 0, 1, 0, 1, int32(have),
			int32(have)}
		if err := ioctl(md.Fd(), setArrayInfo, unsafe.Pointer(&info)); err != nil {
			return undo, fmt.Errorf("describe the array: %w", err)
		}
		for n := range have {
			device, remove, err := loopDevice(fmt.Sprintf("/tmp/member%d", n))
			if err != nil {
				return undo, err
			}
			all = append(all, remove)
			var st unix.Stat_t
			if err := unix.Stat(device, &st); err != nil {
				return undo, err
			}
			// mdu_disk_info_t: number, major, minor, position, state: active and in sync
			disk := [5]int32{int32(n), int32(unix.Major(st.Rdev)), int32(unix.Minor(st.Rdev)),
				int32(n), 1<<1 | 1<<2}
			if err := ioctl(md.Fd(), addNewDisk, unsafe.Pointer(&disk)); err != nil {
				return undo, fmt.Errorf("add member %s: %w", device, err)
			}
		}
		var parameters [3]int32
		if err := ioctl(md.Fd(), runArray, unsafe.Pointer(&parameters)); err != nil {
			return undo, fmt.Errorf("run the array: %w", err)
		}
		all = append(all, func() {
			if f, err := os.Open("/dev/md0"); err == nil {
				ioctl(f.Fd(), stopArray, nil)
				f.Close()
			}
		})
		stop, err := child("write", "/dev/md0")
		if err == nil {
			all = append(all, stop)
		}
		return undo, err
	}
}

func makeNode(name string, major, minor uint32) error {
	err := unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor)))
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// Ioctls of include/uapi/linux/dm-ioctl.h: _IOWR(0xfd, N, 312 bytes).
const (
	dmCreate  = 0xc138fd03
	dmRemove  = 0xc138fd04
	dmSuspend = 0xc138fd06 // suspends or resumes, by its flag
	dmLoad    = 0xc138fd09

	dmSuspendFlag = 1 << 1
	dmHeader      = 312
	dmTarget      = 40
)

// mapper is a request to device mapper.
func mapper(request uintptr, name string, flags uint32, table []byte) (device uint64, err error) {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer control.Close()
	b := make([]byte, dmHeader+len(table))
	le := binary.LittleEndian
	le.PutUint32(b, 4) // version 4.0.0
	le.PutUint32(b[12:], uint32(len(b)))
	le.PutUint32(b[16:], dmHeader) // where the table begins
	if table != nil {
		le.PutUint32(b[20:], 1) // targets
	}
	le.PutUint32(b[28:], flags)
	copy(b[48:176], name)
	copy(b[dmHeader:], table)
	if err := ioctl(control.Fd(), request, unsafe.Pointer(&b[0])); err != nil {
		return 0, err
	}
	return le.Uint64(b[40:]), nil
}

// mapped makes a device of device mapper and writes to it. With suspend somebody suspends it.
func mapped(suspend bool) func() (func(), error) {
	return func() (undo func(), err error) {
		var all []func()
		undo = func() {
			for i := range all {
				all[len(all)-1-i]()
			}
		}
		device, remove, err := loopDevice("/tmp/volume")
		if err != nil {
			return undo, err
		}
		all = append(all, remove)
		const name = "vg-data"
		number, err := mapper(dmCreate, name, 0, nil)
		if err != nil {
			return undo, fmt.Errorf("make a device: %w", err)
		}
		all = append(all, func() { mapper(dmRemove, name, 0, nil) })
		var st unix.Stat_t
		if err := unix.Stat(device, &st); err != nil {
			return undo, err
		}
		// struct dm_target_spec: begin, length in sectors, status, next, type; then its parameters
		table := make([]byte, dmTarget+32)
		binary.LittleEndian.PutUint64(table[8:], 8<<20/512)
		copy(table[24:], "linear")
		copy(table[dmTarget:], fmt.Sprintf("%d:%d 0", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
		if _, err := mapper(dmLoad, name, 0, table); err != nil {
			return undo, fmt.Errorf("load its table: %w", err)
		}
		resume := func() error { _, err := mapper(dmSuspend, name, 0, nil); return err }
		if err := resume(); err != nil {
			return undo, fmt.Errorf("begin: %w", err)
		}
		node := fmt.Sprintf("/dev/dm-%d", unix.Minor(number))
		if err := makeNode(node, unix.Major(number), unix.Minor(number)); err != nil {
			return undo, err
		}
		stop, err := child("write", node)
		if err != nil {
			return undo, err
		}
		all = append(all, stop)
		if suspend {
			if _, err := mapper(dmSuspend, name, dmSuspendFlag, nil); err != nil {
				return undo, fmt.Errorf("suspend: %w", err)
			}
			all = append(all, func() { resume() })
		}
		return undo, nil
	}
}
