package trace

import (
	"slices"
	"testing"

	"culprit/lang/ir"
	"culprit/measure"
)

// TestLossReasons checks that a Source reports its own reasons where it has some, and those of
// scripts for the other kinds.
func TestLossReasons(t *testing.T) {
	var s Source
	for kind, n := range map[ir.Drop]uint64{
		ir.DropAgg: 1, ir.DropStack: 2, ir.DropDynamic: 3, ir.DropRecord: 4,
	} {
		s.usage.lost.dropped[kind] = n
	}
	records := measure.Loss{
		Reason: "records that were written faster than they were read: bufsize allows more",
		Events: 4,
	}
	tests := []struct {
		name    string
		reasons LossReasons
		want    []measure.Loss
	}{
		{"of scripts", nil, []measure.Loss{
			{Reason: lostKeys, Events: 1},
			{Reason: lostStacks, Events: 2, Kind: measure.LostStacks},
			{Reason: lostVariables, Events: 3},
			records,
		}},
		{"its own", LossReasons{
			ir.DropAgg: "no row", ir.DropStack: "no stack", ir.DropDynamic: "no thread",
		}, []measure.Loss{
			{Reason: "no row", Events: 1},
			{Reason: "no stack", Events: 2, Kind: measure.LostStacks},
			{Reason: "no thread", Events: 3},
			records,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.SetLossReasons(tt.reasons)
			if got := s.Losses(); !slices.Equal(got, tt.want) {
				t.Errorf("losses %v, want %v", got, tt.want)
			}
		})
	}
}
