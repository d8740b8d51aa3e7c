package facts

import "testing"

func TestGroupOf(t *testing.T) {
	const id = "3f2a1b4c5d6e7f8091a2b3c4d5e6f7081920a1b2c3d4e5f60718293a4b5c6d7e"
	for _, tt := range []struct{ cgroup, want string }{
		{"", ""},
		{"/", ""},
		{"relative", ""},
		{"/system.slice/backup.service", "unit backup.service"},
		{"/docker/" + id, "container docker:3f2a1b4c5d6e"},
		{"/system.slice/docker-" + id + ".scope/system.slice/web.service",
			"unit web.service in container docker:3f2a1b4c5d6e"},
		{"/user.slice/user-1000.slice/session-3.scope", ""},
		{"/user.slice/user-1000.slice/user@1000.service", ""},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/build.scope", "unit build.scope"},
		{"/system.slice", ""},
		{"/init.scope", ""},
		{"/batch/one", "cgroup /batch/one"},
	} {
		if got := GroupOf(tt.cgroup); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.cgroup, got, tt.want)
		}
	}
}
