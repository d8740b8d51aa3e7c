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

// loadMachine returns this machine for the load test.
func loadMachine() load.Machine {
	limitHeap()
	m := load.Machine{Watch: catalogueOf(""), Device: routeDevice, Diagnose: diagnoseWhile}
	m.Host, _ = os.Hostname() // "": the machine has no name
	// The boot ID is the same in all containers of a machine.
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.ID = strings.TrimSpace(string(id))
	}
	return m
}

// catalogueOf returns the catalogue of the kernel's counters in a network namespace.
func catalogueOf(netns string) *dataset.Catalogue {
	return dataset.New(collect.New(collect.Env{Netns: netns}, all.Collectors()...))
}

// diagnoseWhile diagnoses the machine until ctx ends and returns the report as JSON. It omits
// traced statistics: their programs run at each packet, and would change the cost of packets, which
// the load test measures.
//
// during is the expected duration. Up to five minutes are recorded by the second; a longer time has
// longer intervals, at most maxDiagnosisIntervals.
func diagnoseWhile(ctx context.Context, during measure.Span) (json.RawMessage, error) {
	catalogue := catalogueOf(defaultNetns())
	traced := map[measure.StatID]bool{}
	for _, st := range catalogue.Stats() {
		traced[st.ID] = st.Traced
	}
	var queries []measure.Query
	for _, text := range rules.Queries() {
		q, err := catalogue.Parse(text)
		if err != nil || traced[q.Stat] {
			continue // the rule with this query reports that it is missing
		}
		q.Step = measure.Second * (1 + (during-1)/maxDiagnosisIntervals/measure.Second)
		queries = append(queries, q)
	}
	reader, err := catalogue.Record(ctx, queries, math.MaxInt32, nil)
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

// maxDiagnosisIntervals is the largest number of intervals of a diagnosis.
const maxDiagnosisIntervals = 300

// routeDevice returns the name of the device through which packets from local to peer leave:
// RTM_GETROUTE, rtnetlink(7). The error is of netlink, or measure.ErrUnclear.
func routeDevice(local, peer netip.Addr) (string, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var request netlink.Request
	request.Begin(unix.RTM_GETROUTE, 0)
	// struct rtmsg: u8 family, u8 prefix length of the destination, u8 that of the source, ...
	header := request.Extend(unix.SizeofRtMsg)
	bits := peer.BitLen()
	header[0], header[1], header[2] = unix.AF_INET, byte(bits), byte(bits)
	if peer.Is6() {
		header[0] = unix.AF_INET6
	}
	request.Attr(unix.RTA_DST, peer.WithZone("").AsSlice())
	request.Attr(unix.RTA_SRC, local.WithZone("").AsSlice())
	if zone := peer.Zone(); zone != "" { // the zone of a link-local address is the device
		return zone, nil
	}
	index := 0
	err = conn.Get(&request, func(typ uint16, payload []byte) error {
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
