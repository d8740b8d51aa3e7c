package cases

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// actWeb is a web server. It answers each request, or each nth, after a pause with a status, or
// hands it on to another server and answers as that one does.
func actWeb(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "address")
	pause := f.Duration("pause", 0, "before an answer")
	every := f.Int64("every", 1, "the pause is before each nth answer only")
	status := f.Int("status", http.StatusOK, "of each answer")
	to := f.String("to", "", "address of the server that knows the answer")
	f.Parse(args)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *at)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", *at, err)
	}
	var asked atomic.Int64
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			start, code := time.Now(), *status
			if *to != "" {
				if code, err = get(r.Context(), *to); err != nil {
					code = http.StatusBadGateway
				}
			}
			if asked.Add(1)%*every == 0 {
				select {
				case <-time.After(*pause):
				case <-r.Context().Done():
				}
			}
			w.WriteHeader(code)
			t.done(0, time.Since(start))
		})}
	go func() { <-ctx.Done(); s.Close() }()
	t.ready()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// actGet asks a web server, some requests at a time. Answers with another status than 200 are
// errors.
func actGet(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	from := f.String("from", "", "address of the server")
	threads := f.Int("threads", 1, "requests at a time")
	rate := f.Float64("rate", 10, "requests a second")
	f.Parse(args)
	p := &pace{rate: *rate}
	for range *threads {
		go func() {
			for p.wait(ctx, 1) == nil {
				start := time.Now()
				if code, err := get(ctx, *from); err != nil || code != http.StatusOK {
					t.errors.Add(1)
				} else {
					t.done(0, time.Since(start))
				}
			}
		}()
	}
	t.ready()
	<-ctx.Done()
	return nil
}

// get asks a server once and returns the status of its answer.
func get(ctx context.Context, from string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from+"/", nil)
	if err != nil {
		return 0, err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, err
}
