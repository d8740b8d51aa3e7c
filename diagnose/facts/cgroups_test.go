package facts

import (
	"strings"
	"testing"
)

func TestCgroupName(t *testing.T) {
	id := strings.Repeat("3f2a1b4c5d6e7f80", 4)
	for _, tt := range []struct{ name, path, want string }{
		{"the visible root", "/", "/ (the container's own, seen from inside)"},
		{"a container", "/docker/" + id, "docker:3f2a1b4c5d6e (/docker/" + id + ")"},
		{"a service", "/system.slice/nginx.service", "/system.slice/nginx.service"},
		{"a group of somebody", "/batch\x1b/job7", "/batch_/job7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CgroupName(tt.path); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
