package cases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// writebackStories are programs that write files to a slow device, faster than it goes or not.
func writebackStories() []Story {
	return []Story{
		{
			Name: "writeback-throttled", Twin: "writeback-light", Needs: needSlowDevice,
			Help: "a program writes files to a device that takes ten requests a second, and " +
				"the device has a small limit of dirty pages",
			build: writebackScene(0, 32<<20),
		},
		{
			Name: "writeback-light", Needs: needSlowDevice,
			Help:  "the same, and the program writes 200 kB each second",
			build: writebackScene(50, 1<<20),
		},
	}
}

// The limit of requests that holds for writeback of all control groups, which the kernel has in
// version 1 only, and the limit of a device's dirty pages, since Linux 6.2.
const (
	requestLimit = "blkio.throttle.write_iops_device"
	pagesLimit   = "bdi/max_bytes"
)

func needSlowDevice() string {
	root, v2, err := hierarchy("blkio")
	if err != nil || v2 {
		return "kernel feature blkio-v1"
	}
	if _, err := os.Stat(filepath.Join(root, requestLimit)); err != nil {
		return "kernel feature blkio-throttle"
	}
	if some, _ := filepath.Glob("/sys/block/*/" + pagesLimit); len(some) == 0 {
		return "kernel feature bdi-max-bytes"
	}
	return needTool("mkfs.ext4")
}

// slowDown limits the device of a mounted file system to a number of write requests per second and
// a number of bytes of dirty pages. It first writes the pages that are dirty now, because the
// kernel does not pause programs that write to those again. quicken removes the limits.
func slowDown(mount string, requests int, dirty int64) error {
	f, err := os.Open(mount)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", mount, err)
	}
	return limitDevice(mount, requests, map[string]string{
		pagesLimit: fmt.Sprint(dirty), "bdi/strict_limit": "1"})
}

// quicken removes the limits of slowDown from a loop device, which would outlast its use.
func quicken(mount string) error {
	return limitDevice(mount, 0, map[string]string{"bdi/strict_limit": "0", "bdi/max_ratio": "100"})
}

func limitDevice(mount string, requests int, files map[string]string) error {
	disk, err := diskOf(mount)
	if err != nil || !strings.HasPrefix(disk, "loop") {
		return err
	}
	number, err := os.ReadFile("/sys/block/" + disk + "/dev")
	if err != nil {
		return err
	}
	for file, value := range files {
		if err := os.WriteFile("/sys/block/"+disk+"/"+file, []byte(value), 0); err != nil {
			return err
		}
	}
	root, _, err := hierarchy("blkio")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, requestLimit),
		fmt.Appendf(nil, "%s %d", strings.TrimSpace(string(number)), requests), 0)
}

// writebackScene has a program that writes blocks of 4 KiB, over and over into a file of a size.
func writebackScene(rate int, size int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		mount := l.Filesystem("media", 96, "-O", "^has_journal", "-E", "lazy_itable_init=0")
		film := filepath.Join(mount, "film")
		if l.err == nil {
			l.fail(os.WriteFile(film, make([]byte, size), 0o600))
			l.fail(slowDown(mount, 10, 4<<20))
		}
		d := sc.load(Program{Name: "recorder", Act: "log", Args: []string{"-file", film, "-most",
			fmt.Sprint(size), "-rate", fmt.Sprint(rate)}})
		sc.try("grep -E '^nr_(dirty|writeback)' /proc/vmstat; cat /proc/%d/wchan", d.PID)
		sc.Truth = Truth{Never: []string{"writeback-throttled", "io-stalled"}}
		if rate > 0 {
			sc.Truth.Expect = []Range{done(d, 0.7*float64(rate), 1.1*float64(rate))}
			return
		}
		sc.Truth = Truth{Rule: "writeback-throttled", Kind: []string{"process"},
			Names: []string{d.Name}, PID: d.PID, Cleared: []string{"memory"},
			// The device is slow because of a limit of the root of all control groups.
			Also:   []string{"limit-reached"},
			Expect: []Range{done(d, 0, 10e3)}}
	}
}
