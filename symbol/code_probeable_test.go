package symbol

import (
	"encoding/hex"
	"testing"
)

func TestProbeable(t *testing.T) {
	for code, want := range map[string]bool{"55": true, "f30f1efa": true, "62e27d287ac6": false,
		"c5f877": false, "c4e27d78c0": false, "f0480fb110": false, "8f00": true,
		"8fe97812c1": false} {
		b, _ := hex.DecodeString(code)
		if got := probeableAMD64(b); (got == CanProbe) != want {
			t.Errorf("%s: %v", code, got)
		}
	}
}
