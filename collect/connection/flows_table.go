package connection

import "culprit/measure"

// flow is a connection between two readings. It takes about 120 bytes, so 20,000 take 2.5 MB.
type flow struct {
	cookie uint64
	last   flowCounts
	labels flowLabels
	epoch  int32 // of labels; -1: none yet
	ports  uint32
	inode  uint32
	tick   uint32 // of the last dump that had it
	gone   uint32 // the second of the first dump without it
	owner  ownership
	server bool
	closed bool // by its process: no process has it open
}

// flowLabels names a connection within a namespace.
type flowLabels struct{ local, localPort, peer, peerPort measure.Label }

// flowTable finds connections by cookie. It has records in the order in which they came, and an
// open-addressing index over them. A dump has nearly the same order each time, so most records are
// found after the previous one, without the index.
type flowTable struct {
	pages  []*[flowPage]flow // so that growing copies nothing
	size   int32             // records in use or free
	free   []int32
	slots  []int32 // record + 1; 0: empty; a power of two, at most half full
	shift  uint8   // 64 - log2(len(slots))
	live   int
	expect int32 // the record that probably comes next
}

const (
	fewFlows = 256
	flowPage = 256 // 32 KB, a size class of Go's heap
)

// at returns the record i, which keeps its connection until remove or shrink. A free record has
// cookie 0.
func (t *flowTable) at(i int32) *flow { return &t.pages[uint32(i)/flowPage][uint32(i)%flowPage] }

func (t *flowTable) slot(cookie uint64) uint32 {
	// Fibonacci hashing: cookies are counted up
	return uint32(cookie * 0x9e3779b97f4a7c15 >> t.shift)
}

// find returns the record of the connection, -1 if there is none.
func (t *flowTable) find(cookie uint64) int32 {
	if t.expect < t.size && t.at(t.expect).cookie == cookie {
		t.expect++
		return t.expect - 1
	}
	if len(t.slots) == 0 {
		return -1
	}
	for at := t.slot(cookie); ; at = (at + 1) & uint32(len(t.slots)-1) {
		i := t.slots[at] - 1
		if i < 0 {
			return -1
		}
		if t.at(i).cookie == cookie {
			t.expect = i + 1
			return i
		}
	}
}

// add adds a connection that find did not find. No connection has cookie 0 (the kernel counts from
// 1).
func (t *flowTable) add(cookie uint64) int32 {
	if 2*(t.live+1) > len(t.slots) {
		t.index(max(2*fewFlows, 2*len(t.slots)))
	}
	var i int32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = t.size
		if int(i) == len(t.pages)*flowPage {
			t.pages = append(t.pages, new([flowPage]flow))
		}
		t.size++
	}
	*t.at(i) = flow{cookie: cookie, epoch: -1}
	t.live++
	t.expect = i + 1
	t.put(i)
	return i
}

func (t *flowTable) put(i int32) {
	at := t.slot(t.at(i).cookie)
	for t.slots[at] != 0 {
		at = (at + 1) & uint32(len(t.slots)-1)
	}
	t.slots[at] = i + 1
}

// index makes a new index with size slots, a power of two.
func (t *flowTable) index(size int) {
	t.slots, t.shift = make([]int32, size), 64
	for n := size; n > 1; n >>= 1 {
		t.shift--
	}
	for i := range t.size {
		if t.at(i).cookie != 0 {
			t.put(i)
		}
	}
}

// remove removes the record i. The slots after it move up, so that there are no tombstones.
func (t *flowTable) remove(i int32) {
	mask := uint32(len(t.slots) - 1)
	at := t.slot(t.at(i).cookie)
	for t.slots[at] != i+1 {
		at = (at + 1) & mask
	}
	for next := (at + 1) & mask; t.slots[next] != 0; next = (next + 1) & mask {
		home := t.slot(t.at(t.slots[next] - 1).cookie)
		// its home is not after the gap: it may move into it
		if (next-home)&mask >= (next-at)&mask {
			t.slots[at] = t.slots[next]
			at = next
		}
	}
	t.slots[at] = 0
	*t.at(i) = flow{}
	t.free = append(t.free, i)
	t.live--
}

// shrink releases memory after most of the connections are gone.
func (t *flowTable) shrink() {
	if t.size < 16*fewFlows || t.live > int(t.size)/4 {
		return
	}
	var kept flowTable
	for i := range t.size {
		if f := t.at(i); f.cookie != 0 {
			*kept.at(kept.add(f.cookie)) = *f
		}
	}
	*t = kept
}
