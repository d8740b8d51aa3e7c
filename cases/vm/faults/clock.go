package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const clockDir = "/sys/devices/system/clocksource/clocksource0/"

// clockSource selects the first clock source of names that the kernel has, and has a program ask
// for the time.
func clockSource(names ...string) func() (func(), error) {
	return func() (func(), error) {
		b, err := os.ReadFile(clockDir + "available_clocksource")
		if err != nil {
			return nil, err
		}
		have := strings.Fields(string(b))
		i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(have, n) })
		if i < 0 {
			return nil, fmt.Errorf("the kernel has the clock sources %v only", have)
		}
		before, err := os.ReadFile(clockDir + "current_clocksource")
		if err != nil {
			return nil, err
		}
		set := func(name string) error {
			return os.WriteFile(clockDir+"current_clocksource", []byte(name), 0)
		}
		if err := set(names[i]); err != nil {
			return nil, err
		}
		stop, err := child("time")
		if err != nil {
			return func() { set(string(before)) }, err
		}
		return func() { stop(); set(string(before)) }, nil
	}
}

// asking asks for the time a thousand times a second.
func asking([]string) error {
	fmt.Println("ready")
	for {
		for range 20 {
			_ = time.Now()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stepping sets the wall clock back and forth by 1.5 s, every three seconds.
func stepping() (func(), error) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	var moved time.Duration
	go func() {
		defer close(ended)
		by := 1500 * time.Millisecond
		for {
			select {
			case <-stop:
				shift(-moved)
				return
			case <-time.After(3 * time.Second):
				if shift(by) == nil {
					moved += by
				}
				by = -by
			}
		}
	}()
	return func() { close(stop); <-ended }, nil
}

func shift(by time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	to := unix.NsecToTimespec(now.Nano() + int64(by))
	return unix.ClockSettime(unix.CLOCK_REALTIME, &to)
}

// adjusting lets the wall clock run slower by 400 parts per million, as a time service does.
func adjusting() (func(), error) {
	adjust := func(ppm int64) error {
		_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: ppm << 16})
		return err
	}
	return func() { adjust(0) }, adjust(-400)
}
