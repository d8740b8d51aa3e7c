package container

import (
	"strings"
	"testing"
	"unicode/utf8"

	"culprit/heapbound"
)

// IDs of a container and pod, and another container.
const (
	id    = "3f2a1b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708"
	inner = "aa2a1b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7bb"
	uid   = "5c8b1e9a-0b1c-4d2e-8f3a-1b2c3d4e5f60"
	lined = "5c8b1e9a_0b1c_4d2e_8f3a_1b2c3d4e5f60"
	plain = "0123456789abcdef0123456789abcdef"
)

// paths are as the runtimes write them: cgroupfs and systemd drivers, versions 1 and 2.
//
// table: paths of control groups
var paths = []struct {
	name, path string
	want       Name
	short      string
}{
	{"docker, cgroupfs", "/docker/" + id, Name{Runtime: "docker", ID: id}, "docker:3f2a1b4c5d6e"},
	{"docker, systemd", "/system.slice/docker-" + id + ".scope", Name{Runtime: "docker", ID: id},
		"docker:3f2a1b4c5d6e"},
	{"docker, rootless", "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + id + ".scope",
		Name{Runtime: "docker", ID: id}, "docker:3f2a1b4c5d6e"},
	{"docker in docker", "/docker/" + id + "/docker/" + inner, Name{Runtime: "docker", ID: inner},
		"docker:aa2a1b4c5d6e"},
	{"a service in docker", "/docker/" + id + "/system.slice/cron.service",
		Name{Runtime: "docker", ID: id, Unit: "cron.service"}, "docker:3f2a1b4c5d6e"},
	{"podman", "/machine.slice/libpod-" + id + ".scope/container", Name{Runtime: "podman", ID: id},
		"podman:3f2a1b4c5d6e"},
	{"podman, rootless",
		"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope/container",
		Name{Runtime: "podman", ID: id}, "podman:3f2a1b4c5d6e"},
	{"podman, cgroupfs", "/libpod_parent/libpod-" + id, Name{Runtime: "podman", ID: id},
		"podman:3f2a1b4c5d6e"},
	{"podman's monitor", "/machine.slice/libpod-conmon-" + id + ".scope",
		Name{Unit: "libpod-conmon-" + id + ".scope"}, "libpod-conmon-" + id + ".scope"},
	{"a unit of podman", "/system.slice/web.service/libpod-payload-" + id, Name{Unit: "web.service"},
		"web.service"},
	{"kubelet, cgroupfs", "/kubepods/besteffort/pod" + uid + "/" + id, Name{ID: id, Pod: uid},
		"pod:5c8b1e9a/container:3f2a1b4c5d6e"},
	{"kubelet, guaranteed", "/kubepods/pod" + uid + "/" + id, Name{ID: id, Pod: uid},
		"pod:5c8b1e9a/container:3f2a1b4c5d6e"},
	{"containerd, systemd", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + lined +
		".slice/cri-containerd-" + id + ".scope", Name{Runtime: "containerd", ID: id, Pod: uid},
		"pod:5c8b1e9a/containerd:3f2a1b4c5d6e"},
	{"containerd, mixed drivers", "/system.slice/containerd.service/kubepods-burstable-pod" + lined +
		".slice:cri-containerd:" + id, Name{Runtime: "containerd", ID: id, Pod: uid},
		"pod:5c8b1e9a/containerd:3f2a1b4c5d6e"},
	{"CRI-O", "/kubepods.slice/kubepods-pod" + lined + ".slice/crio-" + id + ".scope",
		Name{Runtime: "cri-o", ID: id, Pod: uid}, "pod:5c8b1e9a/cri-o:3f2a1b4c5d6e"},
	{"docker in a pod", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + lined +
		".slice/docker-" + id + ".scope", Name{Runtime: "docker", ID: id, Pod: uid},
		"pod:5c8b1e9a/docker:3f2a1b4c5d6e"},
	{"a static pod", "/kubepods/burstable/pod" + plain + "/" + id, Name{ID: id, Pod: plain},
		"pod:01234567/container:3f2a1b4c5d6e"},
	{"a pod without container", "/kubepods.slice/kubepods-pod" + lined + ".slice", Name{Pod: uid},
		"pod:5c8b1e9a"},
	{"kind: a node in docker", "/system.slice/docker-" + inner + ".scope/kubelet.slice/" +
		"kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" +
		lined + ".slice/cri-containerd-" + id + ".scope",
		Name{Runtime: "containerd", ID: id, Pod: uid}, "pod:5c8b1e9a/containerd:3f2a1b4c5d6e"},
	{"systemd in a pod", "/kubepods/pod" + uid + "/" + id + "/init.scope",
		Name{ID: id, Pod: uid, Unit: "init.scope"}, "pod:5c8b1e9a/container:3f2a1b4c5d6e"},
	{"nerdctl", "/system.slice/nerdctl-" + id + ".scope", Name{Runtime: "containerd", ID: id},
		"containerd:3f2a1b4c5d6e"},
	{"ECS", "/ecs/" + plain + "/" + id, Name{Runtime: "ecs", ID: id}, "ecs:3f2a1b4c5d6e"},
	{"LXC, version 1", "/lxc/web1/system.slice/ssh.service",
		Name{Runtime: "lxc", ID: "web1", Unit: "ssh.service"}, "lxc:web1"},
	{"LXC, version 2", "/lxc.payload.web1/init.scope",
		Name{Runtime: "lxc", ID: "web1", Unit: "init.scope"}, "lxc:web1"},
	{"LXC's monitor", "/lxc.monitor.web1", Name{}, ""},
	{"nspawn", "/machine.slice/machine-build\\x2d1.scope/init.scope",
		Name{Runtime: "nspawn", ID: "build-1", Unit: "init.scope"}, "nspawn:build-1"},
	{"nspawn as a service", "/machine.slice/systemd-nspawn@build\\x2d1.service/payload",
		Name{Runtime: "nspawn", ID: "build-1"}, "nspawn:build-1"},
	{"a virtual machine", "/machine.slice/machine-qemu\\x2d7\\x2ddb\\x2dmain.scope/libvirt/emulator",
		Name{Runtime: "vm", ID: "db-main"}, "vm:db-main"},
	{"a service", "/system.slice/nginx.service", Name{Unit: "nginx.service"}, "nginx.service"},
	{"an instance", "/system.slice/system-getty.slice/getty@tty1.service",
		Name{Unit: "getty@tty1.service"}, "getty@tty1.service"},
	{"an escaped name", "/system.slice/srv-my\\x2ddata.mount", Name{Unit: "srv-my-data.mount"},
		"srv-my-data.mount"},
	{"a session", "/user.slice/user-1000.slice/session-2.scope", Name{Unit: "session-2.scope"},
		"session-2.scope"},
	{"a program of a desktop",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-123.scope",
		Name{Unit: "app-firefox-123.scope"}, "app-firefox-123.scope"},
	{"the first process", "/init.scope", Name{Unit: "init.scope"}, "init.scope"},
	{"the root", "/", Name{}, ""},
	{"nothing", "", Name{}, ""},
	{"a slice", "/system.slice", Name{}, ""},
	{"a group of somebody", "/batch/job7", Name{}, ""},
	{"a short hexadecimal name", "/docker/8f3a", Name{}, ""},
	{"no pod", "/kubepods/podcast", Name{}, ""},
	{"no pod either", "/tripod" + plain, Name{}, ""},
	{"an escape of a control character", "/system.slice/a\\x0ab.service",
		Name{Unit: "a\\x0ab.service"}, "a\\x0ab.service"},
}

func TestParse(t *testing.T) {
	for _, tt := range paths {
		t.Run(tt.name, func(t *testing.T) {
			got := Parse(tt.path)
			if got != tt.want {
				t.Errorf("%s:\n got %+v\nwant %+v", tt.path, got, tt.want)
			}
			if got.String() != tt.short {
				t.Errorf("%s: got %q, want %q", tt.path, got, tt.short)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range paths {
		f.Add(tt.path)
	}
	heapbound.Fuzz(f, func(t *testing.T, path string) {
		n := Parse(path)
		s := n.String()
		if len(s) > len(path)+len("pod:/container:") {
			t.Errorf("%q is longer than its path %q", s, path)
		}
		if utf8.ValidString(path) && !utf8.ValidString(s) {
			t.Errorf("%q of %q is not UTF-8", s, path)
		}
		// It has no line or terminal code that its path did not have.
		for _, r := range s {
			if r < ' ' && !strings.ContainsRune(path, r) {
				t.Errorf("%q of %q has the control character %q", s, path, r)
			}
		}
	})
}
