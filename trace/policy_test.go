package trace

import (
	"slices"
	"testing"
)

func TestBufferPolicy(t *testing.T) {
	// Records of two CPUs, in the order in which they were read; of n bytes each.
	read := func(q *bufferPolicy, all []record, list ...record) []record {
		return q.keep(append(all, list...))
	}
	of := func(cpu uint32, time uint64, n int) record {
		return record{time: time, cpu: cpu, raw: make([]byte, n)}
	}
	times := func(all []record) (out []uint64) {
		for _, r := range all {
			out = append(out, r.time)
		}
		return out
	}
	for _, tt := range []struct {
		name, policy string
		want         []uint64
		full         bool
	}{
		{"the last of each CPU", "ring", []uint64{1, 5, 6, 7}, false},
		{"the first of each CPU", "fill", []uint64{1, 2, 3}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newBufferPolicy(map[string]string{"bufpolicy": tt.policy, "bufsize": "100"})
			all := read(p, nil, of(1, 1, 60), of(0, 2, 40), of(0, 3, 60))
			all = read(p, all, of(0, 4, 30))
			all = read(p, all, of(0, 5, 30), of(0, 6, 30), of(0, 7, 40))
			if got := times(all); !slices.Equal(got, tt.want) || p.full != tt.full {
				t.Errorf("%v, full %v, want %v, %v", got, p.full, tt.want, tt.full)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if p := newBufferPolicy(map[string]string{"bufpolicy": "switch"}); p != nil {
			t.Error("switch keeps records")
		}
	})
}
