package cases

import (
	"fmt"
	"os"
)

// trackStories fill tables of the kernel, of a network namespace of their own.
func trackStories() []Story {
	return []Story{
		{
			Name: "table-full", Twin: "table-roomy", Needs: needTracking, Light: true,
			Help:  "the table of connection tracking is full and refuses 20 connections a second",
			build: trackScene("-first", "0"),
		},
		{
			Name: "table-roomy", Needs: needTracking, Light: true,
			Help:  "the same table at 60 % of its limit, with 20 new connections a second",
			build: trackScene("-share", "0.6", "-keep"),
		},
		{
			Name: "table-growing", Twin: "table-steady", Needs: needTracking, Light: true,
			Help: "the table of connection tracking has 70,000 entries and gets 900 more each " +
				"second, none of which expires",
			build: growingTableScene(false),
		},
		{
			Name: "table-steady", Needs: needTracking, Light: true,
			Help:  "the same, and as many are removed",
			build: growingTableScene(true),
		},
	}
}

func needTracking() string {
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max"); err != nil {
		return "kernel feature conntrack"
	}
	return ""
}

func trackScene(args ...string) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h := l.Host("gateway")
		d := sc.load(Program{Name: "tracker", Act: "track", On: h, Args: args, Patient: true})
		sc.Where = h
		sc.try("ip netns exec %s sysctl net.netfilter.nf_conntrack_count "+
			"net.netfilter.nf_conntrack_max", h.NS)
		if args[0] == "-share" {
			sc.Truth = Truth{Never: []string{"table-full", "table-growing"},
				Expect: []Range{failures(d, 0, 0), done(d, 10, 21)}}
			return
		}
		sc.Truth = Truth{Rule: "table-full", Kind: []string{"table"}, Names: []string{"conntrack"},
			Lowest: "high", Expect: []Range{failures(d, 10, 21), done(d, 0, 0)}}
	}
}

func growingTableScene(keep bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h := l.Host("gateway")
		d := sc.load(Program{Name: "tracker", Act: "track", On: h, Patient: true, Args: []string{
			"-first", "70000", "-rate", "900", fmt.Sprintf("-keep=%v", keep)}})
		sc.Where = h
		sc.try("ip netns exec %s culprit caches 1 10", h.NS)
		sc.Truth = Truth{Never: []string{"table-growing", "table-full"},
			Expect: []Range{failures(d, 0, 0), done(d, 600, 950)}}
		if !keep {
			sc.Truth.Never = []string{"table-full"}
			sc.Truth.Rule, sc.Truth.Lowest = "table-growing", "low"
			sc.Truth.Kind, sc.Truth.Names = []string{"table"}, []string{"conntrack"}
		}
	}
}
