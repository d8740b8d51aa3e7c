package main

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"culprit/measure"
)

// stuck is how long no tick may come before systemd is no longer told that all is well: longer than
// any reading takes and any clock that was set back is waited for.
const stuck = time.Minute

// notifySystemd tells systemd, where it has started us and wants to know, that we are ready, each
// half of its watchdog's time that we record, and at the end of the context that we stop:
// sd_notify(3).
func notifySystemd(ctx context.Context, env func(string) string, m interface {
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)
}) {
	path := env("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // an abstract name
		path = "\x00" + path[1:]
	}
	// Nobody can be told of a socket that doesn't listen; systemd then does as if we were stuck.
	say := func(what string) {
		if c, err := net.Dial("unixgram", path); err == nil {
			_, _ = c.Write([]byte(what))
			_ = c.Close()
		}
	}
	say("READY=1")
	defer say("STOPPING=1")
	usec, err := strconv.Atoi(env("WATCHDOG_USEC"))
	if err != nil || usec <= 0 {
		<-ctx.Done()
		return
	}
	var newest atomic.Pointer[time.Time]
	mark := func() { t := time.Now(); newest.Store(&t) }
	mark()
	go func() {
		at, err := m.Tick(ctx, 0)
		for err == nil {
			mark()
			at, err = m.Tick(ctx, at)
		}
	}()
	every := time.NewTicker(time.Duration(usec) * time.Microsecond / 2)
	defer every.Stop()
	for {
		if time.Since(*newest.Load()) < stuck {
			say("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}
