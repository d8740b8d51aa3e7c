package client

import (
	"net/http"
	"strings"
	"testing"
)

// A proxy in front of the server replies with a page, not with the server's JSON.
func TestErrorWithoutJSONNamesStatus(t *testing.T) {
	err := parseError(http.StatusBadGateway, []byte("<html>"))
	if err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v, want an error that names status 502", err)
	}
}
