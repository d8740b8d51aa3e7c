package cases

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A request is 8 bytes: how many bytes the answer shall have, then the sender's number, both
// big-endian uint32.
const requestBytes = 8

func actSink(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "address to listen on")
	still := f.Bool("still", false, "accept connections and read nothing")
	f.Parse(args)
	return listenTCP(ctx, *at, t, func(c *net.TCPConn) {
		if *still {
			<-ctx.Done()
			return
		}
		drain(c, t)
	})
}

func actServe(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "address to listen on")
	f.Parse(args)
	zeros := make([]byte, 1<<20)
	return listenTCP(ctx, *at, t, func(c *net.TCPConn) {
		var q [requestBytes]byte
		for {
			if _, err := io.ReadFull(c, q[:]); err != nil {
				return
			}
			start := time.Now()
			want := int(binary.BigEndian.Uint32(q[:]))
			for left := want; left > 0; {
				n, err := c.Write(zeros[:min(left, len(zeros))])
				if err != nil {
					return
				}
				left -= n
			}
			t.done(int64(want), time.Since(start))
		}
	})
}

// listenTCP starts a goroutine for each connection until the context ends.
func listenTCP(ctx context.Context, at string, t *tally, serve func(*net.TCPConn)) error {
	l, err := net.Listen("tcp4", at)
	if err != nil {
		return err
	}
	go func() { <-ctx.Done(); l.Close() }()
	t.ready()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, syscall.EMFILE) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			steady(c)
			serve(c.(*net.TCPConn))
		}()
	}
}

func actStream(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	to := f.String("to", "", "address to connect to")
	rate := f.Float64("rate", 0, "bytes a second over all connections; 0: as fast as it goes")
	conns := f.Int("conns", 1, "connections")
	chunk := f.Int("chunk", 128<<10, "bytes a write")
	buffer := f.Int("buffer", 0, "SO_SNDBUF of each connection; 0: the kernel's choice")
	apart := f.Duration("apart", 0, "time from the start of one connection to that of the next")
	f.Parse(args)
	p := &pace{rate: *rate}
	fail := make(chan error, *conns)
	write := func(c net.Conn) error {
		b := make([]byte, *chunk)
		for {
			if err := p.wait(ctx, float64(len(b))); err != nil {
				return err
			}
			n, err := c.Write(b)
			t.done(int64(n), 0)
			if err != nil {
				return err
			}
		}
	}
	for i := range *conns {
		if i > 0 && *apart > 0 {
			go func() {
				if err := sleep(ctx, time.Duration(i)**apart); err != nil {
					return
				}
				c, err := dialBuffered(ctx, *to, *buffer)
				if err != nil {
					fail <- err
					return
				}
				fail <- write(c)
			}()
			continue
		}
		c, err := dialBuffered(ctx, *to, *buffer)
		if err != nil {
			return err
		}
		go func() { fail <- write(c) }()
	}
	t.ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fail:
		return err
	}
}

// steady sets the cubic congestion control of a connection where the machine has it: bbr, a common
// default, measures a round trip of 8 us on a veth and sometimes paces a flow down to nothing
// there, which would be another story.
func steady(c net.Conn) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	raw.Control(
		func(fd uintptr) {
			unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
		},
	)
}

// dialBuffered connects. buffer is the size of the send buffer in bytes; 0: the kernel chooses.
func dialBuffered(ctx context.Context, to string, buffer int) (net.Conn, error) {
	c, err := dial(ctx, to)
	if err != nil {
		return nil, err
	}
	steady(c)
	if buffer > 0 {
		return c, c.(*net.TCPConn).SetWriteBuffer(buffer)
	}
	return c, nil
}

func dial(ctx context.Context, to string) (net.Conn, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	var last error
	for n := 0; n < 5; n++ {
		c, err := d.DialContext(ctx, "tcp4", to)
		if err == nil {
			return c, nil
		}
		last = err
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, last
}

func actAsk(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	to := f.String("to", "", "address of the server")
	rate := f.Float64("rate", 0, "requests a second; 0: as fast as answers come")
	size := f.Int("size", 64, "bytes an answer")
	window := f.Int("window", 1, "requests under way on one connection, besides one")
	conns := f.Int("conns", 1, "connections, or with -fresh connections being made at a time")
	fresh := f.Bool("fresh", false, "a new connection for each request, closed by a reset")
	pieces := f.Bool("pieces", false, "write each request in two pieces")
	nagle := f.Bool("nagle", false, "let TCP hold small pieces, as without TCP_NODELAY")
	f.Parse(args)
	p := &pace{rate: *rate}
	fail := make(chan error, *conns)
	for range *conns {
		if *fresh {
			go func() { fail <- askFresh(ctx, *to, *size, p, t) }()
			continue
		}
		c, err := dial(ctx, *to)
		if err != nil {
			return err
		}
		if err := c.(*net.TCPConn).SetNoDelay(!*nagle); err != nil {
			return err
		}
		if *pieces {
			c = inPieces{c}
		}
		go func() { fail <- askOn(ctx, c, *size, *window, p, t) }()
	}
	t.ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fail:
		return err
	}
}

// inPieces writes in two pieces.
type inPieces struct{ net.Conn }

func (c inPieces) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	m, err := c.Conn.Write(b[len(b)/2:])
	return n + m, err
}

// askOn keeps at most window requests under way on one connection.
func askOn(ctx context.Context, c net.Conn, size, window int, p *pace, t *tally) error {
	defer c.Close()
	sent := make(chan time.Time, window)
	gone := make(chan error, 1)
	go func() {
		b := make([]byte, size)
		for start := range sent {
			if _, err := io.ReadFull(c, b); err != nil {
				gone <- err
				return
			}
			t.done(int64(size), time.Since(start))
		}
	}()
	var q [requestBytes]byte
	binary.BigEndian.PutUint32(q[:], uint32(size))
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		// The answer's turn is taken before asking, so that what waits in the channel is at most
		// the window.
		select {
		case sent <- time.Now():
		case err := <-gone:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := c.Write(q[:]); err != nil {
			return err
		}
	}
}

func askFresh(ctx context.Context, to string, size int, p *pace, t *tally) error {
	b := make([]byte, size)
	var q [requestBytes]byte
	binary.BigEndian.PutUint32(q[:], uint32(size))
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		start := time.Now()
		c, err := net.DialTimeout("tcp4", to, 2*time.Second)
		if err != nil {
			t.errors.Add(1)
			continue
		}
		c.(*net.TCPConn).SetLinger(
			0,
		) // a reset: no TIME_WAIT entries beside those that the scene counts
		c.SetDeadline(start.Add(2 * time.Second))
		_, err = c.Write(q[:])
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		c.Close()
		if err != nil {
			t.errors.Add(1)
			continue
		}
		t.done(int64(size), time.Since(start))
	}
}

// actDeaf listens with a short queue and never accepts: the queue overflows.
func actDeaf(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "address to listen on")
	backlog := f.Int("backlog", 1, "connections that may wait to be accepted")
	f.Parse(args)
	a, err := net.ResolveTCPAddr("tcp4", *at)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	s := &unix.SockaddrInet4{Port: a.Port}
	copy(s.Addr[:], a.IP.To4())
	if err := unix.Bind(fd, s); err != nil {
		return fmt.Errorf("bind %s: %w", *at, err)
	}
	if err := unix.Listen(fd, *backlog); err != nil {
		return fmt.Errorf("listen on %s: %w", *at, err)
	}
	t.ready()
	<-ctx.Done()
	return nil
}

// actSpray sends datagrams that nobody need read.
func actSpray(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	to := f.String("to", "", "address to send to")
	rate := f.Float64("rate", 1000, "datagrams a second")
	size := f.Int("size", 1400, "bytes a datagram")
	f.Parse(args)
	c, err := net.Dial("udp4", *to)
	if err != nil {
		return err
	}
	p := &pace{rate: *rate}
	b := make([]byte, *size)
	t.ready()
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		// Refused by the other end, or no buffer: counted, not fatal.
		if _, err := c.Write(b); err != nil {
			t.errors.Add(1)
			continue
		}
		t.done(int64(*size), 0)
	}
}

// actSniff binds a packet socket to an interface in promiscuous mode and reads what comes.
func actSniff(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	dev := f.String("dev", "", "interface")
	f.Parse(args)
	i, err := net.InterfaceByName(*dev)
	if err != nil {
		return err
	}
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}); err != nil {
		return fmt.Errorf("bind a packet socket to %s: %w", *dev, err)
	}
	m := unix.PacketMreq{Ifindex: int32(i.Index), Type: unix.PACKET_MR_PROMISC}
	err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m)
	if err != nil {
		return fmt.Errorf("set %s promiscuous: %w", *dev, err)
	}
	t.ready()
	go func() {
		b := make([]byte, 70000)
		for {
			n, err := unix.Read(fd, b)
			if err == nil {
				t.done(int64(n), 0)
			} else if err != unix.EINTR {
				t.errors.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	<-ctx.Done()
	return nil
}

// actFill makes established TCP connections that no peer knows of, without a packet, by TCP_REPAIR
// (tcp(7), net/ipv4/tcp.c: connect on a socket in repair mode only enters the table). More than one
// process's files can hold are shared out to processes of the same name.
func actFill(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	n := f.Int("n", 100000, "connections")
	block := f.Int("block", 0, "number of this process among those that fill one table")
	f.Parse(args)
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return err
	}
	each := min(int(r.Cur)-100, 40000) // 40,000 ports of one source address
	if *n > each {
		return fillShared(ctx, *n, each, t)
	}
	for i := range *n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket %d of %d: %w", i, *n, err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
			return fmt.Errorf("repair mode: %w", err)
		}
		from := &unix.SockaddrInet4{
			Port: 20000 + i,
			Addr: [4]byte{127, 77, byte(*block >> 8), byte(*block)},
		}
		if err := unix.Bind(fd, from); err != nil {
			return fmt.Errorf("bind %d of %d: %w", i, *n, err)
		}
		to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
		if err := unix.Connect(fd, to); err != nil {
			return fmt.Errorf("connect %d of %d: %w", i, *n, err)
		}
		t.ops.Add(1)
	}
	t.ready()
	<-ctx.Done()
	return nil
}

func fillShared(ctx context.Context, n, each int, t *tally) error {
	var wg sync.WaitGroup
	fail := make(chan error, n/each+1)
	for block := 0; block*each < n; block++ {
		// By the file name that this process was started by, which sets its name: see
		// Start.
		c := exec.CommandContext(
			ctx, os.Args[0], "-n", fmt.Sprint(min(each, n-block*each)), "-block", fmt.Sprint(block),
		)
		out, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			return err
		}
		wg.Add(1)
		go func() {
			word := make([]byte, len("ready"))
			_, err := io.ReadFull(out, word)
			fail <- err
			wg.Done()
			io.Copy(io.Discard, out)
		}()
	}
	wg.Wait()
	close(fail)
	for err := range fail {
		if err != nil {
			return fmt.Errorf("a process that fills the table ended early: %w", err)
		}
	}
	t.ops.Store(int64(n))
	t.ready()
	<-ctx.Done()
	return nil
}

// actHear reads datagrams.
func actHear(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "address to listen on")
	f.Parse(args)
	a, err := net.ResolveUDPAddr("udp4", *at)
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp4", a)
	if err != nil {
		return err
	}
	c.SetReadBuffer(
		4 << 20,
	) // as much as the machine allows: this reader shall not be the one that drops
	go func() { <-ctx.Done(); c.Close() }()
	t.ready()
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		t.done(int64(n), 0)
	}
}
