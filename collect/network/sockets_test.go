package network

import (
	"testing"

	"golang.org/x/sys/unix"
)

// bindSockets opens one socket for each use of a device by sockets, in the calling thread's
// namespace.
func bindSockets(t testing.TB, device string) error {
	var ifindex uint32
	open := func(family, kind, protocol int) (int, error) {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err == nil {
			t.Cleanup(func() { unix.Close(fd) })
		}
		return fd, err
	}
	// this test does not run on big-endian machines
	be16 := func(v uint16) uint16 { return v<<8 | v>>8 }
	tcp, err := open(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	req, err := unix.NewIfreq(device)
	if err == nil {
		err = unix.IoctlIfreq(tcp, unix.SIOCGIFINDEX, req)
	}
	if err != nil {
		return err
	}
	ifindex = req.Uint32()
	// A listener and a UDP socket bound to the device, and an unbound listener.
	if err := unix.BindToDevice(tcp, device); err != nil {
		return err
	}
	if err := unix.Bind(tcp, &unix.SockaddrInet4{Port: 7001}); err != nil {
		return err
	}
	if err := unix.Listen(tcp, 1); err != nil {
		return err
	}
	udp, err := open(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := unix.BindToDevice(udp, device); err != nil {
		return err
	}
	if err := unix.Bind(udp, &unix.SockaddrInet4{Port: 7002}); err != nil {
		return err
	}
	group := &unix.IPMreqn{Multiaddr: [4]byte{239, 1, 2, 3}, Ifindex: int32(ifindex)}
	err = unix.SetsockoptIPMreqn(udp, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, group)
	if err != nil {
		return err
	}
	free, err := open(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(free, &unix.SockaddrInet4{Port: 7003}); err != nil {
		return err
	}
	if err := unix.Listen(free, 1); err != nil {
		return err
	}
	// A sniffer on the device, and an LLDP daemon on all.
	sniffer, err := open(unix.AF_PACKET, unix.SOCK_RAW, int(be16(unix.ETH_P_ALL)))
	if err != nil {
		return err
	}
	all := &unix.SockaddrLinklayer{Protocol: be16(unix.ETH_P_ALL), Ifindex: int(ifindex)}
	if err := unix.Bind(sniffer, all); err != nil {
		return err
	}
	_, err = open(unix.AF_PACKET, unix.SOCK_RAW, int(be16(unix.ETH_P_LLDP)))
	return err
}
