package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// nameNamespaces makes n network namespaces with names, as `ip netns add` does, and raises the
// loopback of each. Their names are in the world's own /run/netns, so they end with it.
func nameNamespaces(n int) error {
	const dir = "/run/netns"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		failed := make(chan error)
		go func() { failed <- nameNamespace(filepath.Join(dir, fmt.Sprint("space", i))) }()
		if err := <-failed; err != nil {
			return fmt.Errorf("add network namespace %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// nameNamespace makes one. Its thread is in that namespace then, so it ends with the goroutine,
// which must not unlock it.
func nameNamespace(name string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", name, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind its name: %w", err)
	}
	return raise("lo")
}

// raise sets a network device up: netdevice(7), SIOCSIFFLAGS.
func raise(device string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("raise %s: %w", device, err)
	}
	return nil
}
