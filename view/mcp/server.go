package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	"culprit/measure"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// instructions are what a client learns about the server as a whole.
const instructions = `culprit measures a Linux machine and names what limits it. Start with diagnose.
Its findings have the culprit, evidence with a query per number, a command to verify and a fix.
A query is: statistic by field,field where field = "value". Examples: cpu.time by mode;
process.cpu by process; net.device.bytes by device,direction where device != "lo".
The resource culprit://catalogue lists all statistics with units and fields. Rates are per second,
shares are 0 to 1, null is "not measured". All tools only read; times are local to the machine.`

// server holds the tools of one host.
type server struct {
	host Host
	sdk  *sdk.Server
}

// New returns an MCP server for a host.
func New(h Host, version string) *sdk.Server {
	s := &server{host: h, sdk: sdk.NewServer(
		&sdk.Implementation{Name: "culprit", Version: version},
		&sdk.ServerOptions{
			Instructions: instructions,
			Capabilities: &sdk.ServerCapabilities{
				Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{},
			},
		},
	)}
	s.addDiagnose()
	s.addFindings()
	s.addAsk()
	s.addTool()
	s.addCompare()
	s.addProfileDiff()
	s.addCatalogue()
	return s.sdk
}

// maxRequest bounds a request over HTTP, in bytes.
const maxRequest = 64 << 10

// Handler returns the handler of the streamable HTTP transport: a POST per message, answered with
// JSON. It keeps no session. It checks neither token nor origin: the caller must.
func Handler(s *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, DisableLocalhostProtection: true,
			MaxRequestBodyBytes: maxRequest, PropagateRequestCancellation: true,
		},
	)
}

// add adds a tool that only reads. adapt completes the JSON Schema of its arguments. f's error
// becomes a tool error, and so does a panic.
func add[In any](
	s *server, name, title, description string, adapt func(*jsonschema.Schema),
	f func(context.Context, In) (*sdk.CallToolResult, error),
) {
	args, no := newArguments[In](adapt), false
	s.sdk.AddTool(&sdk.Tool{
		Name: name, Title: title, Description: description, InputSchema: args.schema,
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no, DestructiveHint: &no,
		},
	}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in, err := args.parse(r.Params.Arguments)
		if err != nil {
			return failed(err), nil
		}
		var got *sdk.CallToolResult
		err = s.host.Do(ctx, func(ctx context.Context) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = measure.Recovered("the tool "+name, p)
				}
			}()
			got, err = f(ctx, in)
			return err
		})
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return failed(err), nil
		}
		return got, nil
	})
}

// Bounds of arguments.
const (
	maxSeconds   = 60
	maxRows      = 500
	maxCountOf   = 60 // intervals
	defaultRows  = 20
	maxTextBytes = 4096
)

// bound sets the bounds and the default of a numeric argument.
func bound(schema *jsonschema.Schema, name string, least, most, otherwise float64) {
	p := schema.Properties[name]
	p.Minimum, p.Maximum = &least, &most
	b, err := json.Marshal(otherwise)
	if err != nil { // of a number: never
		panic(err)
	}
	p.Default = b
}

// boundTexts sets the maximum length of all texts.
func boundTexts(schema *jsonschema.Schema) {
	most := maxTextBytes
	for _, p := range schema.Properties {
		if p.Type == "string" {
			p.MaxLength = &most
		}
	}
}
