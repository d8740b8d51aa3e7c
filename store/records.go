package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/record"
)

// Pebble's logs and manifests are records in blocks of 32 KB. A record is one chunk or several,
// none of which crosses a block:
//
//	checksum u32, length u16, type u8 [, log number u32 [, offset u64]], payload
//
// all least significant byte first. The checksum is of all after the length. Types 1 to 4 have the
// short header, 5 to 8 that with the log number, 9 to 12 that with both. In each group the order
// is: whole record, first chunk, middle chunk, last chunk.
const (
	recordBlock = 32 << 10
	chunkHeader = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // table: crc32 makes it once

// chunkSum is the checksum of a chunk: a CRC-32C, rotated and shifted as LevelDB does.
func chunkSum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// records is what could be read of a log or a manifest.
type records struct {
	whole [][]byte
	// some bytes between records, or before a record, could not be read
	damaged bool
	// the file ends in bytes that are no record: a write that was cut off, or the rest of an older
	// log whose file is used again
	torn bool
}

// logChunk is one chunk of a block.
type logChunk struct {
	place   uint8 // 0: whole record, 1: first, 2: middle, 3: last
	payload []byte
	size    int
}

// readChunk reads the chunk at the start of b. ok is false when there is none of this log.
func readChunk(b []byte, log uint32) (c logChunk, ok bool) {
	if len(b) < chunkHeader || b[6] < 1 || b[6] > 12 {
		return c, false
	}
	kind := int(b[6]) - 1
	header := []int{chunkHeader, chunkHeader + 4, chunkHeader + 12}[kind/4]
	end := header + int(binary.LittleEndian.Uint16(b[4:]))
	if end > len(b) || chunkSum(b[6:end]) != binary.LittleEndian.Uint32(b) {
		return c, false
	}
	if kind >= 4 && binary.LittleEndian.Uint32(b[7:]) != log {
		return c, false
	}
	return logChunk{uint8(kind % 4), b[header:end], end}, true
}

// readRecords reads all records of a file; log is the file's number. After bytes that it cannot
// read it goes on at the next block.
func readRecords(b []byte, log uint32) (r records) {
	var open []byte // the chunks of a record whose last one is to come; nil: none
	for start := 0; start < len(b); start += recordBlock {
		block := b[start:min(start+recordBlock, len(b))]
		for at := 0; at < len(block); {
			rest := block[at:]
			if len(rest) < chunkHeader && len(block) == recordBlock {
				break // no chunk fits here
			}
			c, ok := readChunk(rest, log)
			if !ok {
				if ends, next := chunkGap(rest, log, len(block) == recordBlock); ends {
					return r
				} else if !next {
					r.torn, open = true, nil
				}
				break
			}
			at += c.size
			if r.torn { // something readable comes after what is not
				r.torn, r.damaged = false, true
			}
			switch c.place {
			case 0:
				r.damaged = r.damaged || open != nil
				r.whole, open = append(r.whole, bytes.Clone(c.payload)), nil
			case 1:
				r.damaged = r.damaged || open != nil
				open = append([]byte{}, c.payload...)
			case 2, 3:
				if open == nil {
					r.damaged = true
					continue
				}
				if open = append(open, c.payload...); c.place == 3 {
					r.whole, open = append(r.whole, open), nil
				}
			}
		}
	}
	r.torn = r.torn || open != nil
	return r
}

// chunkGap judges bytes that are no chunk. ends: they are the mark that Pebble puts behind the last
// record of a log. next: they fill up a block, and reading goes on in the next one.
func chunkGap(rest []byte, log uint32, full bool) (ends, next bool) {
	if len(rest) >= chunkHeader+4 && rest[6] >= 5 && rest[6] <= 12 &&
		binary.LittleEndian.Uint32(rest[7:]) == log+1 {
		return true, false // its checksum is 0
	}
	const longest = chunkHeader + 12
	return false, full && len(rest) < longest && len(bytes.Trim(rest, "\x00")) == 0
}

// writeRecords writes records as Pebble writes a manifest, which it also reads as a log.
func writeRecords(to io.Writer, all [][]byte) error {
	w := record.NewWriter(to)
	for _, b := range all {
		if _, err := w.WriteRecord(b); err != nil {
			return err
		}
	}
	return w.Close()
}
