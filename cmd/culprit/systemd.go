package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"culprit/measure"
)

// maxTickAge is the age of the newest tick above which the watchdog is not notified, so that
// systemd restarts the server. It is longer than any reading and than any wait after a clock was
// set back.
const maxTickAge = time.Minute

// sendToSystemd sends a state to systemd. An error has no receiver: systemd then acts as if the
// server hung.
func sendToSystemd(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // an abstract name
		path = "\x00" + path[1:]
	}
	if c, err := net.Dial("unixgram", path); err == nil {
		_, _ = c.Write([]byte(state))
		_ = c.Close()
	}
}

// notifySystemd sends READY=1 to systemd, WATCHDOG=1 at each half of the watchdog's time while
// ticks are recorded, and STOPPING=1 when ctx ends: sd_notify(3). It returns at once if
// NOTIFY_SOCKET is not set.
func notifySystemd(ctx context.Context, env func(string) string, send func(string), m interface {
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)
}) {
	if env("NOTIFY_SOCKET") == "" {
		return
	}
	send("READY=1")
	defer send("STOPPING=1")
	usec, err := strconv.Atoi(env("WATCHDOG_USEC"))
	if err != nil || usec <= 0 {
		<-ctx.Done()
		return
	}
	var lastTick atomic.Pointer[time.Time]
	markTick := func() { t := time.Now(); lastTick.Store(&t) }
	markTick()
	go func() {
		at, err := m.Tick(ctx, 0)
		for err == nil {
			markTick()
			at, err = m.Tick(ctx, at)
		}
	}()
	ticker := time.NewTicker(time.Duration(usec) * time.Microsecond / 2)
	defer ticker.Stop()
	for {
		if time.Since(*lastTick.Load()) < maxTickAge {
			send("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
