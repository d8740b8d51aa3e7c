package client

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"culprit/measure"
)

// A proxy in front of the server replies with a page, not with the server's JSON.
func TestErrorWithoutJSONNamesStatus(t *testing.T) {
	err := parseError(http.StatusBadGateway, []byte("<html>"))
	if err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v, want an error that names status 502", err)
	}
}

// A server that replies with kilobytes which unpack to gigabytes takes no more of the client's
// memory than its request needs.
func TestRepliesAreBounded(t *testing.T) {
	sent := int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"stats":[`)
		for range 4000 { // 1 GB; the client leaves earlier
			n, err := io.WriteString(z, strings.Repeat(`{"ID":"a"},`, 25000))
			if atomic.AddInt64(&sent, int64(n)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := DialURL(t.Context(), server.URL, "")
	if !errors.Is(err, measure.ErrTooLarge) || !strings.Contains(err.Error(), "more than 8 MB") {
		t.Errorf("%v", err)
	}
	c := &Client{base: server.URL + "/", http: server.Client()}
	q, err := measure.ParseQuery("cpu.time")
	if err != nil {
		t.Fatal(err)
	}
	q.Over, q.Step = measure.Interval{Start: 0, End: 10e9}, measure.Second
	if _, err := c.Ask(t.Context(), q); !errors.Is(err, measure.ErrTooLarge) ||
		!strings.Contains(err.Error(), "more than 17 MB") {
		t.Errorf("%v", err)
	}
	if n := atomic.LoadInt64(&sent); n > 200<<20 {
		t.Errorf("%d MB were sent", n>>20)
	}
}

// A token is sent by plain HTTP to this machine only, unless the address accepts it.
func TestTokenIsNotSentInPlain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing connects
	for address, refused := range map[string]bool{
		"http://10.255.255.1:7410/":          true,
		"http://10.255.255.1:7410/#insecure": false,
		"http://127.0.0.1:1/":                false,
		"https://10.255.255.1:7410/":         false,
	} {
		_, err := DialURL(ctx, address, "secret")
		if err == nil || strings.Contains(err.Error(), "without encryption") != refused ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, refused: %v", address, err, refused)
		}
	}
	if _, err := DialURL(ctx, "http://10.255.255.1:7410/", ""); err == nil ||
		strings.Contains(err.Error(), "without encryption") {
		t.Errorf("without a token: %v", err)
	}
}
