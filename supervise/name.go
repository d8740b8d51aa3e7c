package supervise

import (
	"os"
	"strings"
)

// Environment returns the variable of the environment that makes a process a child of a name,
// without files.
func Environment(name string) string { return variable + "=" + name + ":0" }

// IsChild reports whether this process was started as a child of a name.
func IsChild(name string) bool {
	of, _, _ := strings.Cut(os.Getenv(variable), ":")
	return of == name
}
