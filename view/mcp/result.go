package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/show"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxResult bounds the JSON of a result, in bytes: about 20,000 tokens of a language model.
const maxResult = 64 << 10

// tooLong is the error of a result that is longer than maxResult.
type tooLong struct{ size int }

func (t tooLong) Error() string {
	return fmt.Sprintf("the result has %d bytes, more than %d", t.size, maxResult)
}

// result returns the result of a tool from its JSON: masked, and as text too for clients that do
// not read structured content. The error is tooLong.
func result(document []byte) (*sdk.CallToolResult, error) {
	document = maskStrings(document)
	if len(document) > maxResult {
		return nil, tooLong{len(document)}
	}
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: string(document)}},
		StructuredContent: json.RawMessage(document),
	}, nil
}

// shorten returns the result of make for the largest of n and its halves that fits.
func shorten(n int, make func(n int) ([]byte, error)) (*sdk.CallToolResult, error) {
	for {
		document, err := make(n)
		if err != nil {
			return nil, err
		}
		r, err := result(document)
		if err == nil || n <= 1 {
			return r, err
		}
		n /= 2
	}
}

// maskStrings masks secrets in all strings of a JSON document. Command lines are masked as they are
// read, but a recording may be of a server with --mask off.
func maskStrings(document []byte) []byte {
	var masks measure.Masker
	out := make([]byte, 0, len(document))
	for len(document) > 0 {
		start := bytes.IndexByte(document, '"')
		if start < 0 {
			break
		}
		end := stringEnd(document, start)
		literal := document[start:end]
		out = append(out, document[:start]...)
		document = document[end:]
		var text string
		if json.Unmarshal(literal, &text) == nil {
			if masked := masks.Mask([]byte(text)); string(masked) != text {
				out = view.AppendString(out, string(masked))
				continue
			}
		}
		out = append(out, literal...)
	}
	return append(out, document...)
}

// stringEnd returns the end of the string that starts at start, behind its closing quote.
func stringEnd(document []byte, start int) int {
	for i := start + 1; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(document)
}

// failure is the JSON of a tool error. Position is in bytes of Text.
type failure struct {
	Message  string `json:"message"`
	Code     string `json:"code"`
	Hint     string `json:"hint,omitempty"`
	Text     string `json:"text,omitempty"`
	Position *int   `json:"position,omitempty"`
	Length   int    `json:"length,omitempty"`
}

// failed returns the result of a tool that failed: the message, with the position if the error has
// one.
func failed(err error) *sdk.CallToolResult {
	f := failure{Message: clean(err.Error()), Code: "failed"}
	text := f.Message
	var d *measure.Diagnostic
	var usage show.UsageError
	var long tooLong
	switch {
	case errors.As(err, &d):
		f = failure{
			Message: clean(d.Message), Code: d.Code, Hint: clean(d.Hint), Text: d.Text,
			Position: &d.Pos, Length: d.Len,
		}
		lines := strings.Split(d.Marked(), "\n")
		for i := range lines {
			lines[i] = view.Clean(lines[i])
		}
		text = fmt.Sprintf("column %d:\n%s", d.Pos+1, strings.Join(lines, "\n"))
	case errors.As(err, &usage):
		f.Code = "bad-request"
	case errors.As(err, &long):
		f.Code, f.Hint = "too-large", "ask for fewer rows, fewer fields or fewer intervals"
		text += ": " + f.Hint
	case errors.Is(err, measure.ErrDenied):
		f.Code = "denied"
	case errors.Is(err, measure.ErrUnsupported):
		f.Code = "unsupported"
	}
	document, err := json.Marshal(map[string]failure{"error": f})
	if err != nil { // a failure consists of texts and numbers
		panic(err)
	}
	return &sdk.CallToolResult{
		IsError:           true,
		Content:           []sdk.Content{&sdk.TextContent{Text: string(maskText(text))}},
		StructuredContent: json.RawMessage(maskStrings(document)),
	}
}

func maskText(text string) []byte {
	var masks measure.Masker
	return masks.Mask([]byte(text))
}

// maxMessage bounds the message of an error, in bytes. It may contain what the caller sent.
const maxMessage = 2000

// clean returns a message without control characters, shortened.
func clean(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + " ..."
	}
	return view.Clean(text)
}
