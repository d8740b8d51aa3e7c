package family

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"culprit/kernel"
	"culprit/kernel/bpf"

	"github.com/cilium/ebpf/btf"
)

// unknownReason is the word for packets that a kernel before Linux 5.17 drops.
const unknownReason = "unknown"

// dropReasons names the reasons for which the running kernel drops packets.
func dropReasons() *naming {
	names := sync.OnceValue(func() map[int64]string {
		types := bpf.NewTypes(kernel.Root{})
		defer types.Release()
		spec, err := types.Kernel()
		if err != nil {
			return nil // reasons stay numbers
		}
		return reasonNames(spec)
	})
	return &naming{
		say: func(n int64) string { return reasonWord(n, names()) },
		all: func(yield func(int64, string) bool) {
			for n, name := range names() {
				if n>>16 == 0 && !yield(n, name) {
					return
				}
			}
			yield(0, unknownReason)
		},
	}
}

// reasonNames returns the names that dropNames takes from the kernel's types.
func reasonNames(spec *btf.Spec) map[int64]string {
	var reasons, subsystems *btf.Enum
	if spec.TypeByName("skb_drop_reason", &reasons) != nil {
		return nil
	}
	if spec.TypeByName("skb_drop_reason_subsys", &subsystems) != nil {
		subsystems = &btf.Enum{} // since Linux 6.4
	}
	return dropNames(reasons, subsystems)
}

// dropNames returns the kernel's names without their prefixes: reasons below 1<<16 are those of the
// core, and n<<16 is the name of another subsystem in lower case.
func dropNames(reasons, subsystems *btf.Enum) map[int64]string {
	names := map[int64]string{}
	for _, v := range reasons.Values {
		name, ok := strings.CutPrefix(v.Name, "SKB_DROP_REASON_")
		if ok && name != "MAX" && name != "SUBSYS_MASK" {
			names[int64(v.Value)] = name
		}
	}
	for _, v := range subsystems.Values {
		name := strings.TrimPrefix(v.Name, "SKB_DROP_REASON_SUBSYS_")
		if v.Value > 0 && name != "NUM" {
			names[int64(v.Value)<<16] = strings.ToLower(name)
		}
	}
	return names
}

// reasonWord returns the word for a reason: NO_SOCKET, or openvswitch:3.
func reasonWord(n int64, names map[int64]string) string {
	n = int64(uint32(n))
	switch name := names[n]; {
	case n == 0:
		return unknownReason
	case name != "" && n>>16 == 0:
		return name
	case n>>16 > 0:
		if name = names[n>>16<<16]; name == "" {
			name = "subsystem-" + strconv.FormatInt(n>>16, 10)
		}
		return name + ":" + strconv.FormatInt(n&0xffff, 10)
	}
	return strconv.FormatInt(n, 10)
}

// etherType is added to a type of Ethernet frames, to distinguish it from a protocol of IP.
const etherType = 1 << 16

// packetProtocols names protocols of IP, and with etherType those of Ethernet.
func packetProtocols() *naming {
	names := map[int64]string{
		1: "icmp", 2: "igmp", 4: "ipip", 6: "tcp", 17: "udp", 33: "dccp", 41: "ipv6-in-ip", 47: "gre",
		50: "esp", 51: "ah", 58: "icmpv6", 89: "ospf", 103: "pim", 112: "vrrp", 115: "l2tp",
		132: "sctp", 136: "udplite",
		etherType + 0x0800: "ip", etherType + 0x0806: "arp", etherType + 0x86dd: "ipv6",
		etherType + 0x8100: "vlan", etherType + 0x8847: "mpls", etherType + 0x8863: "pppoe",
		etherType + 0x8864: "pppoe-session", etherType + 0x888e: "eapol",
		etherType + 0x88cc: "lldp", etherType + 0x88f7: "ptp",
	}
	return &naming{
		say: func(n int64) string {
			switch {
			case names[n] != "":
				return names[n]
			case n >= etherType:
				return fmt.Sprintf("ethertype-%04x", n-etherType)
			}
			return "ip-" + strconv.FormatInt(n, 10)
		},
		all: func(yield func(int64, string) bool) {
			for n, name := range names {
				if !yield(n, name) {
					return
				}
			}
		},
	}
}

// kernelFunctions names functions of the kernel without "vmlinux`". Those of modules keep theirs.
func kernelFunctions() *naming {
	return &naming{text: func(name string) string { return strings.TrimPrefix(name, "vmlinux`") }}
}
