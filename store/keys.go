package store

import (
	"encoding/binary"

	"culprit/measure"
)

// The first byte of a key says what the value is. docs/FORMATS.md lists them.
const (
	kindIndexAgain   = '1' // as kindIndex: a block that rots must not take with it what others are
	kindClockAgain   = '2' // as kindClock: one is of all that is in up to an hour of some datasets
	kindDataset      = 'd' // dataset u32 -> description, JSON
	kindFrame        = 'f' // sequence u64 -> frame
	kindGroup        = 'p' // slot u64, dataset u32, resolution u8, start u64, segment u64, number u32 -> some rows of a segment
	kindGroupOld     = 'g' // the same without slot, of segments before slotsFrom
	kindClock        = 'c' // number u64 -> ticks or cells, which segments have in common
	kindHeader       = 'h' // dataset u32, resolution u8, start u64, segment u64 -> rows of the groups of a segment
	kindIndex        = 'i' // the same -> what there is to know of a segment before it is read
	kindDatasetAgain = 'z' // as kindDataset
	kindKeys         = 'k' // number u64 -> keys, which segments have in common
	kindMeta         = 'm' // name -> what is true of the archive as a whole
	kindLog          = 'l' // kind text, 0, time u64, sequence u64 -> document
)

// bound gives the first key after all that begin with a prefix.
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

func datasetKey(kind byte, id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kind}, id) }

func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }

func ownKey(kind byte, id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, id) }

func frameKeyOf(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kindFrame}, seq) }

func frameSeq(key []byte) uint64 {
	if len(key) != 9 {
		return 0
	}
	return binary.BigEndian.Uint64(key[1:])
}

// timeKey orders times before and after the epoch.
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
	b := append(binary.BigEndian.AppendUint32(append(make([]byte, 0, segmentKeyLen+4), kind), set), resolution)
	return binary.BigEndian.AppendUint64(timeKey(b, start), id)
}

// groupsKey is what the keys of the groups of a segment begin with. Groups lie by time first, in slots: what is new then lies at the end, and
// Pebble's compactions leave alone what is old. In a slot each dataset lies together.
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
