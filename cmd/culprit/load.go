package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"

	"culprit/collect"
	"culprit/collect/all"
	"culprit/dataset"
	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/kernel/netlink"
	"culprit/load"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// loadMachine is this machine, as a load test is told of it.
func loadMachine() load.Machine {
	limitHeap()
	m := load.Machine{Watch: catalogueOf(""), Device: routeDevice, Diagnose: diagnoseWhile}
	m.Host, _ = os.Hostname()                                                  // it may have none
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil { // the same in all containers of a machine
		m.ID = strings.TrimSpace(string(id))
	}
	return m
}

func catalogueOf(netns string) *dataset.Catalogue {
	return dataset.New(collect.New(collect.Env{Netns: netns}, all.Collectors()...))
}

// diagnoseWhile looks at the machine until the context ends. What programs in the kernel would
// measure for it is left out: they run at each packet, and it is the packets' cost that is
// measured.
//
// Up to five minutes are looked at by seconds, a longer time in longer intervals: each is kept
// whole.
func diagnoseWhile(ctx context.Context, over measure.Span) (json.RawMessage, error) {
	c := catalogueOf(defaultNetns())
	traced := map[measure.StatID]bool{}
	for _, st := range c.Stats() {
		traced[st.ID] = st.Traced
	}
	var queries []measure.Query
	for _, text := range rules.Queries() {
		q, err := c.Parse(text)
		if err != nil || traced[q.Stat] {
			continue // the rule that asks it will say that it is missing
		}
		q.Step = measure.Second * (1 + (over-1)/maxDiagnosisIntervals/measure.Second)
		queries = append(queries, q)
	}
	reader, err := c.Record(ctx, queries, math.MaxInt32, nil)
	if err != nil {
		return nil, err
	}
	report, err := diagnose.Run(
		context.WithoutCancel(ctx), reader, rules.Set(), measure.Interval{}, 0,
	)
	if err != nil {
		return nil, err
	}
	return json.Marshal(report)
}

// maxDiagnosisIntervals is how many intervals a diagnosis is made of.
const maxDiagnosisIntervals = 300

// routeDevice asks the kernel through which device packets from one address to the other leave
// (RTM_GETROUTE, rtnetlink(7)).
func routeDevice(local, peer netip.Addr) (string, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var q netlink.Request
	q.Begin(unix.RTM_GETROUTE, 0)
	h := q.Extend(
		unix.SizeofRtMsg,
	) // struct rtmsg: u8 family, destination's and source's prefix lengths ...
	bits := peer.BitLen()
	h[0], h[1], h[2] = unix.AF_INET, byte(bits), byte(bits)
	if peer.Is6() {
		h[0] = unix.AF_INET6
	}
	q.Attr(unix.RTA_DST, peer.WithZone("").AsSlice())
	q.Attr(unix.RTA_SRC, local.WithZone("").AsSlice())
	if zone := peer.Zone(); zone != "" { // of a link-local address: it names the device
		return zone, nil
	}
	index := 0
	err = conn.Get(&q, func(typ uint16, payload []byte) error {
		if typ != unix.RTM_NEWROUTE || len(payload) < unix.SizeofRtMsg {
			return nil
		}
		for a := netlink.AttrsOf(payload[unix.SizeofRtMsg:]); a.Next(); {
			if a.Type() == unix.RTA_OIF {
				index = int(a.Uint())
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("ask for the route to %s: %w", peer, err)
	}
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", fmt.Errorf("find the device of the route to %s: %w", peer, measure.ErrUnclear)
	}
	return device.Name, nil
}
