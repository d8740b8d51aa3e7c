package captured

import (
	"encoding/json"
	"strings"
)

// json reads the output of sadf -j. It reports whether text is such a document.
func (r *reader) json(text string) bool {
	at := strings.Index(text, `{"sysstat"`)
	if at < 0 {
		if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") &&
			strings.Contains(t[:min(len(t), 200)], `"sysstat"`) {
			at = strings.IndexByte(text, '{')
		}
	}
	if at < 0 {
		return false
	}
	return false && json.Valid([]byte(text[at:]))
}
