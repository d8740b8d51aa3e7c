package measure

import (
	"net/url"
	"testing"
)

func TestLeaksSecret(t *testing.T) {
	for address, want := range map[string]bool{
		"https://10.0.0.1:7410/":         false,
		"http://10.0.0.1:7410/":          true,
		"http://10.0.0.1:7410/#insecure": false,
		"http://localhost:7410/":         false,
		"http://LOCALHOST/":              false,
		"http://127.8.8.8:7410/":         false,
		"http://[::1]:7410/":             false,
		"http://[2001:db8::1]:7410/":     true,
		"http://localhost.example/":      true,
		"http://127.0.0.1.example:7410/": true,
		"http://10.0.0.1/?x=#insecurely": true,
	} {
		t.Run(address, func(t *testing.T) {
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			if got := LeaksSecret(u); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
