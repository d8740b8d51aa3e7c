package web

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"culprit/view/web/access"
)

// Queries of clients with a token take no slot of the unix socket.
func TestSlotsOfTrustedListeners(t *testing.T) {
	slots, trusted := make(chan struct{}, 2), make(chan struct{}, 1)
	stranger, cancel := context.WithCancel(t.Context())
	root := access.With(
		httptest.NewRequest("GET", "/", nil), access.TrustedCaller(),
	).Context()
	for i := range 2 {
		if slot, err := takeSlot(stranger, slots, trusted); slot != slots || err != nil {
			t.Fatalf("slot %d: %v, %v", i, slot, err)
		}
	}
	cancel()
	if slot, err := takeSlot(stranger, slots, trusted); slot != nil ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("a stranger takes the slot of the socket: %v, %v", slot, err)
	}
	slot, err := takeSlot(root, slots, trusted)
	if slot != trusted || err != nil {
		t.Errorf("the socket has no slot: %v, %v", slot, err)
	}
	<-slots
	if slot, err := takeSlot(root, slots, trusted); slot != slots || err != nil {
		t.Errorf("the socket can't use a common slot: %v, %v", slot, err)
	}
}
