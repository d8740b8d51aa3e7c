package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"culprit/kernel"
	"culprit/symbol"
)

// An askedReader counts what is asked of a reader, and fails from a request on.
type askedReader struct {
	symbol.OwnReader
	asked map[symbol.Op]int
	fails symbol.Op // 0: none
}

func (r *askedReader) Read(q *symbol.Request) (*symbol.Answer, error) {
	r.asked[q.Op]++
	if q.Op == r.fails {
		return nil, symbol.ErrFailed
	}
	return r.OwnReader.Read(q)
}

// listed returns the probes that a description matches, as their names.
func listed(t *testing.T, files *symbol.Files, text string) (names []string, err error) {
	t.Helper()
	e := NewEnv(kernel.Root{})
	defer e.Close() //nolint:errcheck // only read
	e.Files = files
	err = e.List(described(t, text), func(l Listed) { names = append(names, fmt.Sprint(l)) })
	return names, err
}

// TestReaderOfProcesses: the probes of processes are read by the reader of the Env, and are those
// that this process reads.
func TestReaderOfProcesses(t *testing.T) {
	self := fmt.Sprint(os.Getpid())
	for _, tt := range []struct {
		name, text string
		ops        []symbol.Op
	}{
		{"entry", "pid" + self + ":a.out:main.main:entry", []symbol.Op{symbol.OpFunctions}},
		{"returns of Go", "pid" + self + ":a.out:main.main:return",
			[]symbol.Op{symbol.OpFunctions, symbol.OpReturns}},
		{"offsets", "pid" + self + ":a.out:main.main:",
			[]symbol.Op{symbol.OpFunctions, symbol.OpInstructions, symbol.OpProbeable}},
		{"static probes", "app" + self + ":::", []symbol.Op{symbol.OpNotes}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &askedReader{asked: map[symbol.Op]int{}}
			got, err := listed(t, symbol.NewToolFiles(r), tt.text)
			want, wantErr := listed(t, nil, tt.text)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || !slices.Equal(got, want) {
				t.Errorf("%v, %v; want %v, %v", got, err, want, wantErr)
			}
			if len(got) == 0 && tt.name != "static probes" {
				t.Error("no probe is listed")
			}
			for _, op := range append(tt.ops, symbol.OpCode) {
				if r.asked[op] == 0 {
					t.Errorf("the reader was not asked for operation %d", op)
				}
				failing := &askedReader{asked: map[symbol.Op]int{}, fails: op}
				_, err := listed(t, symbol.NewToolFiles(failing), tt.text)
				if err == nil && op != symbol.OpProbeable {
					t.Errorf("operation %d fails without an error", op)
				}
				if n := (*NoProbe)(nil); err != nil && !errors.As(err, &n) {
					t.Errorf("operation %d fails with %v", op, err)
				}
			}
		})
	}
}
