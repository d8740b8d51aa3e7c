package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// waitStories are programs that wait although nothing is busy, each with a twin that works. A look
// at the whole machine would find them beside another scene.
func waitStories() []Story {
	loop := func() string { return needTool("mkfs.ext4") }
	return []Story{
		{
			Name: "filesystem-frozen", Twin: "filesystem-writes", Needs: loop,
			Help:  "five programs write to a file system that somebody froze and forgot",
			build: freezingScene(true),
		},
		{
			Name: "filesystem-writes", Light: true, Needs: loop,
			Help:  "the same programs, and the file system is not frozen",
			build: freezingScene(false),
		},
		{
			Name: "connections-refused", Twin: "connections-made",
			Help:  "a program connects 20 times a second to a server that is not running",
			build: connectingScene(false),
		},
		{
			Name: "connections-made", Light: true,
			Help:  "the same, and the server runs",
			build: connectingScene(true),
		},
		{
			Name: "dns-silent", Twin: "dns-answers",
			Help:  "a program looks names up, and the name server does not answer",
			build: lookupScene("dns-silent", 0),
		},
		{
			Name: "dns-slow", Twin: "dns-answers", Light: true,
			Help:  "a program looks names up, and the name server answers after two seconds",
			build: lookupScene("dns-slow", 2*time.Second),
		},
		{
			Name: "dns-late", Twin: "dns-answers", Light: true,
			Help:  "the same after 350 ms",
			build: lookupScene("dns-slow", 350*time.Millisecond),
		},
		{
			Name: "dns-fails", Twin: "dns-answers", Light: true,
			Help:  "the same, and the name server answers that it failed (SERVFAIL)",
			build: lookupScene("dns-fails", 0),
		},
		{
			Name: "dns-answers", Light: true,
			Help:  "the same, and the name server answers after 60 ms that there is no such name",
			build: lookupScene("", 60*time.Millisecond),
		},
		{
			Name: "memory-growing", Twin: "memory-used",
			Help:  "a program takes 150 MB more each second",
			build: growingScene(0),
		},
		{
			Name:  "memory-used",
			Help:  "the same, and it uses again what it has",
			build: growingScene(256 << 20),
		},
		{
			Name: "memory-files", Twin: "memory-used", Needs: func() string { return needTool("mount") },
			Help:  "a program writes 150 MB more each second to a file in tmpfs",
			build: tmpfsScene,
		},
		{
			Name: "datagrams-refused", Twin: "datagrams-read", Light: true,
			Help:  "a program sends datagrams to a port on which nobody listens",
			build: refusedScene(false),
		},
		{
			Name: "datagrams-read", Light: true,
			Help:  "the same, and somebody listens",
			build: refusedScene(true),
		},
		{
			Name: "zombies", Twin: "children-reaped",
			Help:  "a program has 150 zombies, five more each second",
			build: spawningScene(false),
		},
		{
			Name:  "children-reaped",
			Help:  "the same, and it waits for its children",
			build: spawningScene(true),
		},
	}
}

func growingScene(most int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "hoarder", Act: "grow",
			Args: []string{"-rate", "150e6", "-most", fmt.Sprint(most)}})
		sc.try("grep VmRSS /proc/%d/status", d.PID)
		used := Range{What: "used", Low: 120e6, High: 160e6, Unit: "byte/s",
			Read: func() (float64, time.Time) { c := d.Count(); return float64(c.Bytes), c.At }}
		if most > 0 {
			sc.Truth = Truth{Never: []string{"memory-growing"}, Expect: []Range{used}}
			return
		}
		sc.Truth = Truth{Rule: "memory-growing", Kind: []string{"process"}, Names: []string{d.Name},
			PID: d.PID, Lowest: "low", Expect: []Range{used}}
	}
}

func tmpfsScene(l *Lab, sc *Scene, _ Options) {
	mount := filepath.Join(l.Dir(), "scratch")
	if l.err == nil {
		l.fail(os.Mkdir(mount, 0o777))
	}
	l.tool("mount", "-t", "tmpfs", "-o", "size=200g", "scratch", mount)
	d := sc.load(Program{Name: "exporter", Act: "grow",
		Args: []string{"-rate", "150e6", "-file", filepath.Join(mount, "dump")}})
	sc.try("df -h %s; grep Shmem: /proc/meminfo", mount)
	sc.Truth = Truth{Rule: "memory-growing", Kind: []string{"filesystem"}, Names: []string{mount},
		Lowest: "low", Expect: []Range{{What: "written", Low: 120e6, High: 160e6, Unit: "byte/s",
			Read: func() (float64, time.Time) { c := d.Count(); return float64(c.Bytes), c.At }}}}
}

func refusedScene(heard bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h, at := l.Host("metrics"), "127.0.0.1:8125"
		if heard {
			sc.load(Program{Name: "statsd", Act: "hear", On: h, Args: []string{"-at", at}})
		}
		d := sc.load(Program{Name: "app", Act: "spray", On: h,
			Args: []string{"-to", at, "-rate", "200", "-size", "100"}})
		sc.Where = h
		sc.try("ip netns exec %s nstat -az UdpNoPorts IcmpInDestUnreachs", h.NS)
		if heard {
			sc.Truth = Truth{Never: []string{"udp-refused"},
				Expect: []Range{failures(d, 0, 0), done(d, 150, 210)}}
			return
		}
		// The kernel reports each refused datagram in place of sending the next one.
		sc.Truth = Truth{Rule: "udp-refused", Kind: []string{"host"},
			Names: []string{"UDP ports without a listener"}, Cleared: []string{"memory"},
			Expect: []Range{failures(d, 75, 105), done(d, 75, 105)}}
	}
}

func spawningScene(reap bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "spawner", Act: "spawn",
			Args: []string{"-first", "150", fmt.Sprintf("-reap=%v", reap)}})
		sc.try("ps -o stat=,pid=,comm= --ppid %d | grep -c ^Z", d.PID)
		if reap {
			sc.Truth = Truth{Never: []string{"zombies"}, Expect: []Range{done(d, 4, 6)}}
			return
		}
		sc.Truth = Truth{Rule: "zombies", Kind: []string{"process"}, Names: []string{d.Name},
			PID: d.PID, Lowest: "low", Expect: []Range{done(d, 4, 6)}}
	}
}

// lookupScene has a program that looks names up, and a name server that answers after a pause. rule
// is that of its fault, "" for none.
func lookupScene(rule string, pause time.Duration) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, dst := pair(l, veths(l))
		server := "10.20.3.34:53"
		args := []string{"-at", server, "-pause", pause.String()}
		switch rule {
		case "dns-silent":
			args = append(args, "-answer=false")
		case "dns-fails":
			args = append(args, "-code", "2")
		}
		sc.load(Program{Name: "named", Act: "names", On: dst, Args: args})
		d := sc.load(Program{Name: "client", Act: "lookup", On: src,
			Args: []string{"-server", server, "-threads", "6", "-rate", "2"}})
		sc.Where = src
		sc.try("ip netns exec %s ss -uanp dport = 53", src.NS)
		sc.Truth = Truth{
			Rule: rule, Kind: []string{"peer"}, Names: []string{"10.20.3.34"},
			Cleared: []string{"memory"}, Expect: []Range{done(d, 1.4, 2.6)},
		}
		switch rule {
		case "":
			sc.Truth = Truth{Never: []string{"dns-silent", "dns-slow", "dns-fails"},
				Expect: sc.Truth.Expect}
		case "dns-silent":
			sc.Truth.Expect = []Range{done(d, 0, 0)}
		case "dns-fails":
			sc.Truth.Expect = []Range{done(d, 0, 0), failures(d, 1.4, 2.6)}
		}
	}
}

func connectingScene(runs bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h := l.Host("client")
		args := []string{"-what", "connections", "-in", "127.0.0.1:7070"}
		if runs {
			sc.load(Program{Name: "server", Act: "sink", On: h,
				Args: []string{"-at", "127.0.0.1:7070"}})
			args = append(args, "-most", "10")
		}
		d := sc.load(Program{Name: "client", Act: "hold", On: h, Args: args})
		sc.Where = h
		sc.try("ip netns exec %s nstat -az TcpAttemptFails TcpActiveOpens", h.NS)
		if runs {
			sc.Truth = Truth{Never: []string{"connections-fail"},
				Expect: []Range{failures(d, 0, 0), done(d, 10, 21)}}
			return
		}
		sc.Truth = Truth{
			Rule: "connections-fail", Kind: []string{"peer", "host"},
			Names: []string{"127.0.0.1:7070", "connection attempts"}, Cleared: []string{"memory"},
			Expect: []Range{failures(d, 10, 21), done(d, 0, 0)},
		}
	}
}

func freezingScene(freeze bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		mount := l.Filesystem("archive", 48)
		var d *Load
		for n := range 5 { // rule tasks-blocked is high from four on
			name := fmt.Sprintf("logger-%d", n)
			d = sc.load(Program{Name: name, Act: "log", Args: []string{"-file",
				filepath.Join(mount, name), "-most", fmt.Sprint(1 << 20)}})
		}
		if !freeze {
			sc.Truth = Truth{Never: []string{"tasks-blocked"}, Expect: []Range{done(d, 10, 21)}}
			return
		}
		if l.err == nil {
			l.fail(freezing(mount, ioctlFreeze))
		}
		sc.Truth = Truth{
			Rule: "tasks-blocked", Kind: []string{"filesystem"}, Names: []string{mount},
			Lowest: "high", Cleared: []string{"memory"}, Expect: []Range{done(d, 0, 0)},
		}
		sc.try("ps -eLo state,wchan:32,pid,comm | grep ^D")
	}
}
