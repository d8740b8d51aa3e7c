package store

import (
	"encoding/binary"

	"culprit/measure"
)

// The first byte of a Pebble key is the kind of its value. docs/FORMATS.md lists them.
const (
	kindIndexAgain = '1' // a copy of kindIndex: the index must survive a corrupt block
	// a copy of kindClock: all data of some datasets in an hour depends on it
	kindClockAgain = '2'
	kindDataset    = 'd' // dataset u32 -> description, JSON
	kindFrame      = 'f' // sequence u64 -> frame
	// slot u64, dataset u32, resolution u8, start u64, segment u64, number u32 -> some rows of a
	// segment
	kindGroup    = 'p'
	kindGroupOld = 'g' // the same without slot, of segments before slotsFrom
	kindClock    = 'c' // ID u64 -> ticks or cells, shared by segments
	// dataset u32, resolution u8, start u64, segment u64 -> rows of the groups of a segment
	kindHeader       = 'h'
	kindIndex        = 'i' // the same -> metadata of a segment
	kindDatasetAgain = 'z' // a copy of kindDataset
	kindKeys         = 'k' // ID u64 -> keys, shared by segments
	kindMeta         = 'm' // name -> value about the archive as a whole
	kindLog          = 'l' // kind text, 0, time u64, sequence u64 -> document
)

// bound returns the first key after all keys with a prefix.
func bound(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func prefix(kind byte) []byte { return []byte{kind} }

func datasetKey(kind byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, id)
}

func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }

func ownKey(kind byte, id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, id) }

func frameKeyOf(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kindFrame}, seq) }

func frameSeq(key []byte) uint64 {
	if len(key) != 9 {
		return 0
	}
	return binary.BigEndian.Uint64(key[1:])
}

// timeKey encodes times before and after the epoch in order.
func timeKey(b []byte, t measure.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t)^1<<63)
}

func keyTime(b []byte) measure.Time { return measure.Time(binary.BigEndian.Uint64(b) ^ 1<<63) }

func logKey(kind string, at measure.Time, seq uint64) []byte {
	b := append(append([]byte{kindLog}, kind...), 0)
	return binary.BigEndian.AppendUint64(timeKey(b, at), seq)
}

const segmentKeyLen = 1 + 4 + 1 + 8 + 8

func segmentKey(kind byte, set uint32, resolution uint8, start measure.Time, id uint64) []byte {
	b := append(
		binary.BigEndian.AppendUint32(append(make([]byte, 0, segmentKeyLen+4), kind), set),
		resolution,
	)
	return binary.BigEndian.AppendUint64(timeKey(b, start), id)
}

// groupsKey returns the prefix of the keys of a segment's groups. Groups are ordered by time first,
// in slots: new data is appended at the end, and Pebble's compactions skip old data. Within a slot
// the groups of a dataset are adjacent.
func (e *entry) groupsKey() []byte {
	if e.version < slotsFrom {
		return segmentKey(kindGroupOld, e.set, e.resolution, e.over.Start, e.id)
	}
	slot := floor(e.over.Start, []measure.Span{windowSpan, hour, day}[e.resolution])
	b := timeKey(append(make([]byte, 0, segmentKeyLen+8+4), kindGroup), slot)
	return append(b, segmentKey(kindGroup, e.set, e.resolution, e.over.Start, e.id)[1:]...)
}

func (e *entry) groupKey(n int) []byte {
	return binary.BigEndian.AppendUint32(e.groupsKey(), uint32(n))
}
