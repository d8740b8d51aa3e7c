package connection

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSendBuffer reads the send buffer among attributes in either order. All numbers differ.
func TestSendBuffer(t *testing.T) {
	attribute := func(kind uint16, numbers int) []byte {
		b := make([]byte, 4+4*numbers)
		native.PutUint16(b, uint16(len(b)))
		native.PutUint16(b[2:], kind)
		for n := range numbers {
			native.PutUint32(b[4+4*n:], uint32(100*int(kind)+n))
		}
		return b
	}
	head := make([]byte, diagHeader)
	head[0], head[1] = unix.AF_INET, tcpEstablished
	memory, info := attribute(diagMemory, 9), attribute(diagInfo, 54)
	for _, tt := range []struct {
		name       string
		text       []byte
		size, used uint32
	}{
		{"before tcp_info", append(append(append([]byte{}, head...), memory...), info...), 703, 705},
		{"after tcp_info", append(append(append([]byte{}, head...), info...), memory...), 703, 705},
		{"none", append(append([]byte{}, head...), info...), 0, 0},
		{"too short", append(append([]byte{}, head...), attribute(diagMemory, 5)...), 0, 0},
	} {
		s := diagSocket{bufferSize: 1, bufferUsed: 2} // of the socket before
		if !parseDiag(tt.text, &s) || s.bufferSize != tt.size || s.bufferUsed != tt.used {
			t.Errorf("%s: size %d, used %d, want %d, %d", tt.name, s.bufferSize, s.bufferUsed,
				tt.size, tt.used)
		}
	}
}
