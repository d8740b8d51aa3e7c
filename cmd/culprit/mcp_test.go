package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callTool calls a tool and returns its text.
func callTool(
	ctx context.Context, c *mcp.ClientSession, name string, args map[string]any,
) (text string, isError bool, err error) {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", false, err
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError, nil
}

// TestMCP lets a client of the protocol's SDK start `culprit mcp`: it measures now, refuses a wrong
// query, and ends with its input.
func TestMCP(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, "mcp", "--dir", t.TempDir())
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		args    map[string]any
		isError bool
		want    string
	}{
		{"tool", map[string]any{"name": "ps", "options": map[string]any{
			"pid": []string{fmt.Sprint(os.Getpid())}}}, false, fmt.Sprintf(`"pid":%d,`, os.Getpid())},
		{"ask", map[string]any{"query": "cpu.time by mode", "seconds": 0.2}, false, `"mode":"sys"`},
		{"ask", map[string]any{"query": "cpu.tme by mode"}, true, "did you mean cpu.time?"},
		{"diagnose", map[string]any{"seconds": 3}, false, `"findings":[`},
		{"findings", map[string]any{}, true, "nothing was recorded"},
	} {
		text, isError, err := callTool(t.Context(), c, tt.name, tt.args)
		if err != nil || isError != tt.isError || !strings.Contains(text, tt.want) {
			t.Errorf("%s %v: error %v, %v: %.600s", tt.name, tt.args, isError, err, text)
		}
	}
	catalogue, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "culprit://catalogue"})
	if err != nil || len(catalogue.Contents[0].Text) > 64<<10 {
		t.Errorf("the catalogue: %v, %d bytes", err, len(catalogue.Contents[0].Text))
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if status := command.ProcessState; status == nil || status.ExitCode() != 0 {
		t.Errorf("it ends with %v", status)
	}
}

// withToken adds a token to each request.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// TestMCPOfAServer lets a client of the protocol's SDK use /mcp of a server with tokens of roles:
// the recording, its findings, and two times compared.
func TestMCPOfAServer(t *testing.T) {
	dir := t.TempDir()
	s := start(t, nil, "serve", "--dir", dir, "--print-token", "--listen", "127.0.0.1:0",
		"--profile", "off")
	base, _, _ := strings.Cut(s.waitForLine(t, "?token=", 20*time.Second), "?")
	connect := func(role string) (*mcp.ClientSession, error) {
		status, out, errs := call(
			t, "tokens", "--dir", dir, "add", role, "--may", role, "--print-token",
		)
		if status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		token, _, _ := strings.Cut(string(out), "\n")
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		return client.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: base + "mcp", HTTPClient: &http.Client{Transport: withToken(token)},
			DisableStandaloneSSE: true, MaxRetries: -1,
		}, nil)
	}
	if c, err := connect("metrics"); err == nil {
		_ = c.Close()
		t.Error("the role metrics may use the tools")
	}
	c, err := connect("view")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it has no session
	ask := func(name string, args map[string]any, want string) error {
		text, isError, err := callTool(t.Context(), c, name, args)
		if err == nil && (isError || !strings.Contains(text, want)) {
			err = fmt.Errorf("%s: error %v: %.500s", name, isError, text)
		}
		return err
	}
	eventually(t, "it has recorded four seconds", 30*time.Second, func() error {
		return ask("compare", map[string]any{
			"before_from": "-4s", "before_to": "-2s", "after_from": "-2s",
		}, `"changes":[{`)
	})
	if err := errors.Join(
		ask("diagnose", map[string]any{"seconds": 3}, `"findings":[`),
		ask("ask", map[string]any{"query": "cpu.time by mode", "intervals": 2}, `"mode":"sys"`),
		ask("tool", map[string]any{"name": "mem"}, `"view":"mem"`),
	); err != nil {
		t.Error(err)
	}
	eventually(t, "a diagnosis is logged", 30*time.Second, func() error {
		text, isError, err := callTool(t.Context(), c, "findings", map[string]any{"from": "-10m"})
		var f struct{ Diagnoses int }
		if err == nil && !isError {
			err = json.Unmarshal([]byte(text), &f)
		}
		if err != nil || f.Diagnoses == 0 {
			return fmt.Errorf("%v %s", err, text)
		}
		return nil
	})
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := s.end(t, 20*time.Second); status != 0 {
		t.Errorf("it ends with status %d", status)
	}
}
