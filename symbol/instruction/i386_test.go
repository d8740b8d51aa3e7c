package instruction

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// Lengths of instructions of 32-bit mode that differ from those of 64-bit mode.
func TestLength386(t *testing.T) {
	for _, code := range []string{
		"55", "89e5", "c3", "40", "4f", "06", "1f", "27", "60", "61", "82c001", "ce",
		"b844332211", "66b82211", "a044332211", "67a02211", "a344332211",
		"8b0544332211", "8b442408", "8b842444332211", "67 8b4604", "67 8b062211", "67 8b862211",
		"67 8b07", "c500", "c44424 08", "6200", "c5f877", "c4e27d78c0", "62f37d483ec001",
		"9a443322116655", "ea443322116655", "66 9a22116655", "d40a", "d50a",
		"e844332211", "66e82211", "0f8444332211", "660f842211", "6844332211", "c20800",
		"cd80", "6589e0", "65a100000000", "65ff1510000000", "f30f1efb", "dd4508",
	} {
		code = strings.ReplaceAll(code, " ", "")
		b, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(code, err)
		}
		follow := bytes.Repeat([]byte{0x90}, 15)
		if got := Length386(append(bytes.Clone(b), follow...)); got != len(b) {
			t.Errorf("%s: %d bytes, want %d", code, got, len(b))
		}
		for i := range b { // none is shorter than it is
			if got := Length386(b[:i]); got > i {
				t.Errorf("%s: %d of %d bytes are an instruction of %d", code, i, len(b), got)
			}
		}
	}
}
