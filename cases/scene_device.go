package cases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// deviceStories are block devices that do not answer.
func deviceStories() []Story {
	return []Story{
		{
			Name: "disk-hangs", Twin: "disk-answers", Needs: needImages, Over: "10s",
			Help:  "the server of a disk stops to answer: a request is in flight and does not end",
			build: imageScene(100),
		},
		{
			Name: "disk-answers", Needs: needImages,
			Help:  "the same, and it answers 20 writes a second",
			build: imageScene(0),
		},
		{
			Name: "io-stalled", Twin: "files-quick", Needs: needImages,
			Help:  "a program reads from a file system whose server takes 100 ms for each answer",
			build: slowScene(100*time.Millisecond, 0),
		},
		{
			Name: "files-quick", Needs: needImages,
			Help:  "the same, and the server takes 1 ms for 1 MB/s",
			build: slowScene(time.Millisecond, 1e6),
		},
	}
}

func needImages() string {
	for _, file := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(file); err != nil {
			return "kernel feature " + filepath.Base(file)
		}
	}
	return ""
}

// LoopDevice makes a block device of a file. It is removed when the last process closes it: the lab
// holds it until release, which the caller calls when others have opened it.
func (l *Lab) LoopDevice(image string) (device string, release func()) {
	if l.err != nil {
		return "", func() {}
	}
	device, held, err := attach(image)
	if err != nil {
		l.fail(fmt.Errorf("make a device of %s: %w", image, err))
		return "", func() {}
	}
	return device, func() { held.Close() }
}

func attach(image string) (device string, held *os.File, err error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer control.Close()
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	for range 20 { // another process may take the free one first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", nil, err
		}
		device = fmt.Sprintf("/dev/loop%d", n)
		if held, err = os.OpenFile(device, os.O_RDWR, 0); err != nil {
			return "", nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(held.Fd()), &config); err == nil {
			return device, held, nil
		}
		held.Close()
		if !errors.Is(err, unix.EBUSY) {
			return "", nil, err
		}
	}
	return "", nil, unix.EBUSY
}

// slowScene has a program that reads from a file system whose server takes long for each answer.
func slowScene(slow time.Duration, rate float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		sc.Where = l.Host("client") // without the traffic of others
		at := filepath.Join(l.dir, "files")
		if l.err == nil {
			l.fail(os.Mkdir(at, 0o700))
		}
		sc.load(Program{Name: "fileserver", Act: "image",
			Args: []string{"-at", at, "-size", fmt.Sprint(2 << 30), "-slow", slow.String()}})
		d := sc.load(Program{Name: "report", Act: "fetch", Args: []string{"-file",
			filepath.Join(at, imageName), "-rate", fmt.Sprint(rate)}})
		sc.try("cat /proc/pressure/io; cat /proc/%d/task/*/wchan", d.PID)
		sc.try("iostat -xy 1 3")
		if slow < 10*time.Millisecond {
			sc.Truth = Truth{Never: []string{"io-stalled", "tasks-blocked", "disk-saturated"},
				Expect: []Range{done(d, 0.8*rate/(16<<10), 1.1*rate/(16<<10))}}
			return
		}
		sc.Truth = Truth{
			Rule: "io-stalled", Kind: []string{"host", "cgroup"},
			Never:  []string{"disk-saturated", "disk-hangs", "memory-pressure"},
			Expect: []Range{done(d, 10, 700)},
		}
	}
}

func imageScene(answered int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		sc.Where = l.Host("server") // without the traffic of others
		at := filepath.Join(l.dir, "images")
		if l.err == nil {
			l.fail(os.Mkdir(at, 0o700))
		}
		server := sc.load(Program{Name: "storage", Act: "image",
			Args: []string{"-at", at, "-most", fmt.Sprint(answered)}})
		device, release := l.LoopDevice(filepath.Join(at, imageName))
		d := sc.load(Program{Name: "database", Act: "write", Patient: true, Args: []string{"-file",
			device, "-depth", "1", "-block", "4096", "-size", fmt.Sprint(1 << 20), "-rate",
			"80e3"}})
		release()
		sc.try("cat /sys/block/%s/inflight", filepath.Base(device))
		if answered == 0 {
			sc.Truth = Truth{Never: []string{"disk-hangs", "disk-saturated", "tasks-blocked"},
				Expect: []Range{done(d, 10, 22)}}
			return
		}
		if l.err == nil {
			l.fail(waitFor("the server to hang", func() bool { return server.Count().Errors > 0 }))
		}
		sc.Truth = Truth{Rule: "disk-hangs", Kind: []string{"disk"},
			Names: []string{filepath.Base(device)}, Lowest: "high", Cleared: []string{"memory"},
			Expect: []Range{done(d, 0, 0)}}
	}
}
