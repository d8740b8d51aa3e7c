package netlink

import "encoding/binary"

// native is the machine's byte order, in which the kernel writes.
var native = binary.NativeEndian
