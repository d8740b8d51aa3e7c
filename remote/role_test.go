package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"culprit/dataset"
	"culprit/measure"
	"culprit/wire"
)

// The recorder answers each role over its socket as the table says, whatever the client checked
// before.
func TestRoles(t *testing.T) {
	const denied, allowed = true, false
	run := runRequest{id: 7, queries: []measure.Query{query(t, "a.b.c")}}
	script := scriptRequest{id: 7, name: "x", text: "BEGIN{}"}
	sample := sampleRequest{id: 7, Sampling: Sampling{Hz: 1, For: 1}}
	for _, tt := range []struct {
		role                Role
		run, script, sample bool
	}{
		{0, denied, denied, denied},
		{RoleMetrics, denied, denied, denied},
		{RoleView, denied, denied, denied},
		{RoleProfile, denied, denied, allowed},
		{RoleRecord, allowed, denied, denied},
		{RoleTrace, allowed, allowed, allowed},
		{RoleTrace + 1, denied, denied, denied},
		{255, denied, denied, denied},
	} {
		run.role, script.role, sample.role = tt.role, tt.role, tt.role
		words := completeRequest{id: 7, role: tt.role}
		for _, one := range []struct {
			name string
			kind kind
			b    []byte
			want bool
		}{
			{"run", kindRun, run.append(nil), tt.run},
			{"script", kindScript, script.append(nil), tt.script},
			{"sample", kindSample, sample.append(nil), tt.sample},
			{"complete", kindComplete, words.append(nil), tt.script},
		} {
			t.Run(fmt.Sprintf("%s by %s (%d)", one.name, tt.role, tt.role), func(t *testing.T) {
				err := endedBy(t, one.kind, one.b)
				if errors.Is(err, measure.ErrDenied) != one.want {
					t.Errorf("the recorder ends it with %v", err)
				}
			})
		}
	}
}

// endedBy sends a request to a recorder over a socket and returns the error by which it ends. It
// asks the recorder to stop it.
func endedBy(t *testing.T, k kind, request []byte) error {
	t.Helper()
	r := NewRecorder(Config{
		Sources: []measure.Source{&seconds{id: "a.b.c"}},
		StartScript: func(measure.Script) (dataset.Runner, error) {
			return nil, errors.New("it may start")
		},
		Sample:   func(context.Context, Sampling) (*Sampled, error) { return &Sampled{}, nil },
		Complete: func(Completing) (*Completion, error) { return &Completion{}, nil },
	})
	defer r.Close()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	go r.Serve(ends[0]) //nolint:errcheck // the other end is closed
	defer ends[1].Close()
	for _, f := range []struct {
		kind    kind
		content []byte
	}{
		{kindHello, wire.AppendUint([]byte(magic), version)}, {k, request},
		{kindStop, wire.AppendUint(nil, 7)},
	} {
		b := endFrame(append(startFrame(nil, f.kind), f.content...), 0)
		if _, err := ends[1].Write(b); err != nil {
			t.Fatal(err)
		}
	}
	for f := (frameReader{wire.Reader{From: ends[1], Limit: maxReply}}); ; {
		k, b, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		if k == kindEnded {
			d := newDecoder(b)
			d.ID()
			return d.error()
		}
	}
}

// The client refuses what a role does not allow before it asks.
func TestClientRefusesRoles(t *testing.T) {
	c := NewClient() // not connected: a request would wait
	for role := Role(0); role <= RoleTrace+1; role++ {
		if role != RoleTrace {
			if _, err := c.StartScript(role, measure.Script{}); !errors.Is(err, measure.ErrDenied) {
				t.Errorf("a script by %s: %v", role, err)
			}
			_, err := c.Complete(t.Context(), role, Completing{})
			if !errors.Is(err, measure.ErrDenied) {
				t.Errorf("a completion by %s: %v", role, err)
			}
		}
		if role != RoleTrace && role != RoleProfile {
			_, err := c.Sample(t.Context(), role, Sampling{})
			if !errors.Is(err, measure.ErrDenied) {
				t.Errorf("a sampling by %s: %v", role, err)
			}
		}
	}
}

func TestRoleNames(t *testing.T) {
	for role := Role(0); role <= RoleTrace+1; role++ {
		want := role
		if role > RoleTrace {
			want = 0
		}
		if got := RoleNamed(role.String()); got != want {
			t.Errorf("role %d is named %s, which is role %d", role, role, got)
		}
	}
}
