package irtest

import (
	"encoding/binary"
	"fmt"
	"strings"

	"culprit/lang/check"
	"culprit/lang/ir"
)

// FormatRecords returns the contents of a program's records: the values of each record separated by
// commas, and for a fault its name and its address or value.
func FormatRecords(p *ir.Program, records [][]byte) string {
	var out []string
	for _, r := range records {
		n := binary.NativeEndian.Uint32(r[8:])
		if n == ir.FaultRecord {
			out = append(
				out,
				fmt.Sprintf(
					"%v:%#x", ir.Fault(binary.NativeEndian.Uint32(r[28:])),
					binary.NativeEndian.Uint64(r[40:]),
				),
			)
			continue
		}
		var values []string
		rec := p.Records[n]
		for _, a := range rec.Actions {
			for i, f := range a.Fields {
				values = append(values, value(a, i, f, r))
			}
		}
		out = append(out, strings.Join(values, ","))
	}
	return strings.Join(out, " ")
}

func value(a ir.RecordAction, i int, f ir.TupleField, r []byte) string {
	if f.Size == 0 {
		switch e := a.Action.Args[i].(type) {
		case *check.Const:
			if i, ok := e.T.(*check.Int); ok && !i.Signed {
				return fmt.Sprint(uint64(e.Value))
			}
			return fmt.Sprint(e.Value)
		case *check.Text:
			return e.Value
		}
		return "?"
	}
	b := r[f.Offset : f.Offset+f.Size]
	switch t := f.Type.(type) {
	case check.StringType:
		s, rest, _ := strings.Cut(string(b), "\x00")
		if strings.Trim(rest, "\x00") != "" {
			return fmt.Sprintf("%q behind the end", b)
		}
		return s
	case *check.Int:
		switch {
		case f.Size == 1 && t.Signed:
			return fmt.Sprint(int8(b[0]))
		case f.Size == 1:
			return fmt.Sprint(b[0])
		case f.Size == 2 && t.Signed:
			return fmt.Sprint(int16(binary.NativeEndian.Uint16(b)))
		case f.Size == 2:
			return fmt.Sprint(binary.NativeEndian.Uint16(b))
		case f.Size == 4 && t.Signed:
			return fmt.Sprint(int32(binary.NativeEndian.Uint32(b)))
		case f.Size == 4:
			return fmt.Sprint(binary.NativeEndian.Uint32(b))
		case t.Signed:
			return fmt.Sprint(int64(binary.NativeEndian.Uint64(b)))
		}
		return fmt.Sprint(binary.NativeEndian.Uint64(b))
	case *check.Pointer:
		return fmt.Sprintf("%#x", binary.NativeEndian.Uint64(b))
	}
	return fmt.Sprintf("%x", b)
}
