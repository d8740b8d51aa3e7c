package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// live makes the world that standard input describes, measures, and prints the result. It is
// process 1 of its namespace.
func live() error {
	if os.Getpid() != 1 {
		return errors.New("this is for worlds only: see enter")
	}
	var s settings
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Named network namespaces of others are none of this world's.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("hide /run: %w", err)
	}
	if err := build(s.World); err != nil {
		return err
	}
	measure := s.measure
	if s.World.Serve {
		measure = s.serve
	}
	r, err := measure()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

const holdMost = 4000 // pairs a process: twice as many files stay below common limits

// build fills the world.
func build(w world) error {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("raise the loopback: %w: %s", err, out)
	}
	for i := range w.Devices / 2 {
		near, far := fmt.Sprint("a", i), fmt.Sprint("b", i)
		cmd := exec.Command("ip", "link", "add", near, "type", "veth", "peer", "name", far)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("add a pair of network devices: %w: %s", err, out)
		}
		// So that there is something to show of each: nobody shows a device that moved nothing.
		for _, end := range []string{"a", "b"}[:2*min(1, len(w.Tools))] {
			cmd := exec.Command("ip", "link", "set", fmt.Sprint(end, i), "up")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("raise a network device: %w: %s", err, out)
			}
		}
	}
	if err := nameNamespaces(w.Namespaces); err != nil {
		return err
	}
	holders := 0
	for left := w.Connections / 2; left > 0; left -= holdMost {
		holders++
		cmd := exec.Command(
			"/proc/self/exe", "hold", strconv.Itoa(min(left, holdMost)), strconv.Itoa(w.Still),
		)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start what holds connections: %w", err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			return fmt.Errorf("wait for the connections: %w", err)
		}
	}
	if w.Programs > 0 {
		cmd := exec.Command("/proc/self/exe", "programs", strconv.Itoa(w.Programs))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start what starts programs: %w", err)
		}
	}
	if left := w.Processes - holders - 2; left > 0 { // this one and their parent count too
		return startSleepers(left)
	}
	return nil
}

// hold opens pairs of connected sockets and writes a byte when it is ready. Each second it moves
// some bytes over one pair in every still pairs.
func hold(pairs, still string) error {
	n, err := strconv.Atoi(pairs)
	if err != nil {
		return err
	}
	one, err := strconv.Atoi(still)
	if err != nil || one < 1 {
		return fmt.Errorf("one pair in %q: not a number from 1 on", still)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	near, far := make([]int, n), make([]int, n)
	accept := func(c net.Conn) (int, error) {
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			return 0, err
		}
		fd, err := syscall.Dup(int(f.Fd()))
		return fd, errors.Join(err, f.Close(), c.Close())
	}
	for i := range n {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		o, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if near[i], err = accept(c); err != nil {
			return err
		}
		if far[i], err = accept(o); err != nil {
			return err
		}
	}
	if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
		return err
	}
	buf := make([]byte, 100)
	for range time.Tick(time.Second) {
		for i := 0; i < n; i += one {
			if _, err := syscall.Write(near[i], buf); err != nil {
				return err
			}
			if _, err := syscall.Read(far[i], buf); err != nil {
				return err
			}
		}
	}
	return nil
}
