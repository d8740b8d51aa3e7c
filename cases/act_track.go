package cases

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// actTrack adds UDP connections to the table of connection tracking of its network namespace, by
// ctnetlink. It adds the first ones before it reports that it is ready, and further ones at a fixed
// rate. With -keep it removes the oldest one for each new one. Refused ones count as errors.
func actTrack(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	first := f.Int("first", 0, "connections to add before it is ready; 0: until the table is full")
	share := f.Float64("share", 0, "the first ones as a share of the limit of the table")
	rate := f.Float64("rate", 20, "connections a second after that")
	keep := f.Bool("keep", false, "remove the oldest for each new one")
	f.Parse(args)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	if *share > 0 {
		b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
		if err != nil {
			return err
		}
		limit, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return fmt.Errorf("read the limit of the table: %w", err)
		}
		*first = int(*share * float64(limit))
	}
	c := &tracker{fd: fd}
	n := 0
	for ; *first == 0 || n < *first; n++ {
		if err := c.send(ctNew, n); errors.Is(err, unix.ENOMEM) && *first == 0 {
			break
		} else if err != nil {
			return fmt.Errorf("add connection %d: %w", n, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	t.ready()
	oldest := 0
	p := &pace{rate: *rate}
	for ; ; n++ {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if *keep {
			if err := c.send(ctDelete, oldest); err != nil {
				return fmt.Errorf("remove connection %d: %w", oldest, err)
			}
			oldest++
		}
		if err := c.send(ctNew, n); err != nil {
			t.errors.Add(1)
			continue
		}
		t.done(0, 0)
	}
}

// Messages and attributes of include/uapi/linux/netfilter/nfnetlink_conntrack.h.
const (
	ctNew         = 1 << 8   // NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_NEW
	ctDelete      = 1<<8 | 2 // IPCTNL_MSG_CT_DELETE
	ctTupleOrig   = 1
	ctTupleReply  = 2
	ctTimeout     = 7
	ctTupleIP     = 1
	ctTupleProto  = 2
	ctSource      = 1 // CTA_IP_V4_SRC
	ctDestination = 2
	ctProtocol    = 1 // CTA_PROTO_NUM
	ctFromPort    = 2
	ctToPort      = 3
	nested        = 1 << 15
)

// tracker sends requests to ctnetlink.
type tracker struct {
	fd       int
	sequence uint32
	b        [4096]byte
}

// send adds or removes connection n: from 10.77.A.B:PORT to 10.78.0.1:9, with a port of 32,768 for
// each address.
func (c *tracker) send(kind uint16, n int) error {
	from := [4]byte{10, 77, byte(n >> 23), byte(n >> 15)}
	to := [4]byte{10, 78, 0, 1}
	port := uint16(n&0x7fff) + 20000
	tuple := func(kind uint16, from, to [4]byte, source, target uint16) []byte {
		addresses := append(attribute(ctSource, from[:]), attribute(ctDestination, to[:])...)
		protocol := attribute(ctProtocol, []byte{unix.IPPROTO_UDP})
		protocol = append(protocol, attribute(ctFromPort, bigEndian(source))...)
		protocol = append(protocol, attribute(ctToPort, bigEndian(target))...)
		return attribute(kind|nested, append(attribute(ctTupleIP|nested, addresses),
			attribute(ctTupleProto|nested, protocol)...))
	}
	body := tuple(ctTupleOrig, from, to, port, 9)
	flags := uint16(unix.NLM_F_REQUEST | unix.NLM_F_ACK)
	if kind == ctNew {
		flags |= unix.NLM_F_CREATE | unix.NLM_F_EXCL
		body = append(body, tuple(ctTupleReply, to, from, 9, port)...)
		body = append(body, attribute(ctTimeout, []byte{0, 0, 0x0e, 0x10})...) // an hour
	}
	c.sequence++
	m := make([]byte, 20, 20+len(body))
	binary.NativeEndian.PutUint32(m, uint32(20+len(body)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags)
	binary.NativeEndian.PutUint32(m[8:], c.sequence)
	m[16] = unix.AF_INET // struct nfgenmsg
	to0 := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(c.fd, append(m, body...), 0, to0); err != nil {
		return err
	}
	k, _, err := unix.Recvfrom(c.fd, c.b[:], 0)
	switch {
	case err != nil:
		return err
	case k < 20 || binary.NativeEndian.Uint16(c.b[4:]) != unix.NLMSG_ERROR:
		return fmt.Errorf("an answer of %d bytes", k)
	}
	if code := int32(binary.NativeEndian.Uint32(c.b[16:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

func bigEndian(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

// attribute returns a struct nlattr with its value, padded to four bytes.
func attribute(kind uint16, value []byte) []byte {
	b := make([]byte, 4, 4+len(value)+3)
	binary.NativeEndian.PutUint16(b, uint16(4+len(value)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}
