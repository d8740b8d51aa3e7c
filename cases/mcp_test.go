package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCP plays a saturated link and lets a client of the protocol's SDK find the culprit by the
// tools of `culprit mcp`: the diagnosis, then the numbers that it points to.
func TestMCP(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	needTools(t, "iperf3")
	all := Catalogue()
	i := slices.IndexFunc(all, func(s Story) bool { return s.Name == "link-saturated-iperf3" })
	if i < 0 {
		t.Fatal("there is no such story")
	}
	bin := needProgram(t)
	played(t, all[i], bin, time.Now().Add(5*time.Minute), func(
		ctx context.Context, sc *Scene,
	) error {
		client := mcp.NewClient(&mcp.Implementation{Name: "lab", Version: "1"}, nil)
		c, err := client.Connect(ctx, &mcp.CommandTransport{Command: sc.on(bin, "mcp")}, nil)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }() // it ends the program
		var r report
		if err := ask(ctx, c, "diagnose", map[string]any{"seconds": 5}, &r); err != nil {
			return err
		}
		if len(r.Findings) == 0 || r.Findings[0].Rule != "link-saturated" ||
			!strings.Contains(r.Findings[0].Claim, "iperf3") ||
			r.Findings[0].Culprit.PID != sc.Truth.PID {
			return fmt.Errorf("the first finding is not iperf3 (%d): %v", sc.Truth.PID, r.Findings)
		}
		var tables struct{ Tables []rows }
		err = ask(ctx, c, "tool", map[string]any{
			"name": "nic", "options": map[string]any{"interface": []string{"eth0"}}, "seconds": 2,
		}, &tables)
		if err != nil {
			return err
		}
		if v, ok := tables.Tables[0].find("device", "eth0", "tx_bytes_per_s"); !ok || v < 100e6 {
			return fmt.Errorf("nic has %v B/s of eth0, %v: %v", v, ok, tables)
		}
		return nil
	})
}

// ask calls a tool and decodes its result. A tool error is an error.
func ask(ctx context.Context, c *mcp.ClientSession, name string, args, into any) error {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || r.IsError {
		return fmt.Errorf("%s: %+v", name, r.Content[0])
	}
	return json.Unmarshal([]byte(text.Text), into)
}
