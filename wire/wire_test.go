package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"testing"
)

func TestValues(t *testing.T) {
	b := AppendUint(nil, math.MaxUint64)
	b = AppendInt(b, math.MinInt64)
	b = AppendFloat(b, -0.5)
	b = AppendBool(AppendString(b, "a\x00ö"), true)
	b = AppendStrings(b, []string{"x", ""})
	b = AppendUint(append(b, 7), 1<<32-1)
	d := &Decoder{Rest: b}
	if u, i, f := d.Uint(), d.Int(), d.Float(); u != math.MaxUint64 || i != math.MinInt64 ||
		f != -0.5 {
		t.Errorf("numbers are %d, %d and %v", u, i, f)
	}
	if s, v := d.String(), d.Bool(); s != "a\x00ö" || !v {
		t.Errorf("text and bool are %q and %v", s, v)
	}
	if list := d.Strings(); !slices.Equal(list, []string{"x", ""}) {
		t.Errorf("the list is %q", list)
	}
	if c, id := d.Byte(), d.ID(); c != 7 || id != 1<<32-1 {
		t.Errorf("byte and ID are %d and %d", c, id)
	}
	if err := d.End(); err != nil {
		t.Error(err)
	}
}

func TestInvalidValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		read func(*Decoder)
	}{
		{"a number is cut", []byte{0x80}, func(d *Decoder) { d.Uint() }},
		{"a float is cut", []byte{1, 2, 3}, func(d *Decoder) { d.Float() }},
		{"a text is cut", []byte{3, 'a', 'b'}, func(d *Decoder) { _ = d.String() }},
		{"a bool of 2", []byte{2}, func(d *Decoder) { d.Bool() }},
		{"an ID of 33 bits", AppendUint(nil, 1<<32), func(d *Decoder) { d.ID() }},
		{"a count of more than fits", []byte{3, 0, 0}, func(d *Decoder) { d.Count(1) }},
		{"bytes follow", []byte{1, 1}, func(d *Decoder) { d.Byte() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &Decoder{Rest: tt.b}
			tt.read(d)
			if err := d.End(); !errors.Is(err, ErrInvalid) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestFrames(t *testing.T) {
	b := End(append(Start(nil, 3), "abc"...), 0)
	from := len(b)
	b = End(Start(b, 4), from)
	r := Reader{From: bytes.NewReader(b), Limit: 3}
	if k, p, err := r.Next(); k != 3 || string(p) != "abc" || err != nil {
		t.Errorf("the first frame is %d %q, %v", k, p, err)
	}
	if k, p, err := r.Next(); k != 4 || len(p) != 0 || err != nil {
		t.Errorf("the second frame is %d %q, %v", k, p, err)
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v", err)
	}
	r = Reader{From: bytes.NewReader(b), Limit: 2}
	if _, _, err := r.Next(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a frame above the limit: %v", err)
	}
	for n := range from {
		r := Reader{From: bytes.NewReader(b[:n]), Limit: 3}
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, _, err := r.Next(); !errors.Is(err, want) {
			t.Errorf("a frame of %d bytes: %v", n, err)
		}
	}
}

// A length without bytes costs no memory.
func TestLengthWithoutPayload(t *testing.T) {
	r := Reader{From: bytes.NewReader([]byte{0, 0, 0, 0x40, 1, 0, 0}), Limit: 1 << 30}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := r.Next()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2*Growth || err == nil {
		t.Errorf("%d bytes were allocated, error %v", n, err)
	}
}
