package facts

// A DropPlace is where the packets of a finding are dropped.
type DropPlace uint8

// The places. Each drops packets for reasons of its own.
const (
	DropsAtInterface DropPlace = iota + 1 // of an interface, before a protocol takes them
	DropsAtQueue                          // before an interface that sends
	DropsAtBacklog                        // of a CPU
	DropsAtSocket                         // of UDP
	DropsAtPort                           // of UDP, without a socket
	DropsOfTCP                            // anywhere in a network namespace
)

// DroppedPackets is the subject of a finding about packets that the kernel drops: where. Tracing
// shows why.
type DroppedPackets struct {
	At     DropPlace
	NetNS  string // unless At is DropsAtBacklog
	Device string // of DropsAtInterface and DropsAtQueue
}

// DropsWithoutReason is the caveat of a finding whose counter has no reason: tracing replaces it.
const DropsWithoutReason = "The counter has no reason: no memory, a full queue, or protocols and " +
	"VLANs without a listener here."
