package cases

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"time"
)

// actNames is a name server that knows no name: it answers each query that there is no such record,
// or with another code, after a pause, or not at all.
func actNames(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "address")
	answer := f.Bool("answer", true, "answer queries")
	pause := f.Duration("pause", 0, "before an answer")
	code := f.Int("code", 3, "of answers (RFC 1035, 4.1.1): 2 SERVFAIL, 3 NXDOMAIN")
	f.Parse(args)
	c, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", *at)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", *at, err)
	}
	go func() { <-ctx.Done(); c.Close() }()
	t.ready()
	b := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case n < 12 || !*answer:
			continue
		}
		b[2], b[3] = b[2]|0x80, 0x80|byte(*code) // QR; RA
		reply := slices.Clone(b[:n])
		time.AfterFunc(*pause, func() {
			if _, err := c.WriteTo(reply, from); err == nil {
				t.done(int64(n), 0)
			}
		})
	}
}

// actLookup looks names up, some at a time. Lookups without an answer count as errors.
func actLookup(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	server := f.String("server", "", "address of the name server")
	threads := f.Int("threads", 1, "lookups at a time")
	rate := f.Float64("rate", 20, "lookups a second")
	f.Parse(args)
	resolver := &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", *server)
		}}
	p := &pace{rate: *rate}
	for n := range *threads {
		go func() {
			for p.wait(ctx, 1) == nil {
				start := time.Now()
				_, err := resolver.LookupIP(ctx, "ip4", fmt.Sprintf("host-%d.example.org.", n))
				var dns *net.DNSError
				if errors.As(err, &dns) && dns.IsNotFound {
					t.done(0, time.Since(start))
				} else {
					t.errors.Add(1)
				}
			}
		}()
	}
	t.ready()
	<-ctx.Done()
	return nil
}
