// Package container names what runs in a control group: the container, pod or systemd unit that
// container runtimes, the kubelet and systemd write into its path. It is pure: a path in, a name
// out.
package container

import "strings"

// Name is what the path of a control group says. The zero value: nothing.
type Name struct {
	// Runtime is "docker", "containerd", "cri-o", "podman", "lxc", "nspawn", "vm" or "ecs"; "" if
	// the path has a container without the name of its runtime, or no container.
	Runtime string
	// ID is the container's ID of 64 hexadecimal digits, or its name for lxc, nspawn and vm.
	ID string
	// Pod is the UID of the Kubernetes pod, with dashes as the API writes it. Static pods have 32
	// digits without dashes.
	Pod string
	// Unit is the innermost systemd unit that is no slice and no container: "nginx.service".
	Unit string
}

// shownID is how many digits of an ID are shown, as docker ps and crictl ps do. shownPod is the
// same for the UID of a pod, whose first group has as many.
const (
	shownID  = 12
	shownPod = 8
)

// String returns a short name: "docker:3f2a1b4c5d6e", "pod:5c8b1e9a/containerd:3f2a1b4c5d6e",
// "nginx.service"; "" for nothing.
func (n Name) String() string {
	if c := n.Container(); c != "" {
		return c
	}
	return n.Unit
}

// Container returns the part of String about the container and its pod; "" if the control group is
// in none.
func (n Name) Container() string {
	parts := make([]string, 0, 2)
	if n.Pod != "" {
		parts = append(parts, "pod:"+n.Pod[:min(shownPod, len(n.Pod))])
	}
	if n.ID != "" {
		id, runtime := n.ID, n.Runtime
		if isID(id) {
			id = id[:shownID]
		}
		if runtime == "" {
			runtime = "container"
		}
		parts = append(parts, runtime+":"+id)
	}
	return strings.Join(parts, "/")
}

// Parse returns the name of a control group by its path, of version 1 or 2, as in /proc/PID/cgroup.
// The innermost container and unit count; a path that is not known is the zero Name. Names keep
// what others wrote into them, without the escapes of systemd.
func Parse(path string) Name {
	var n Name
	before := ""
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			continue
		}
		n.add(part, before)
		before = part
	}
	return n
}

// add adds a directory of the path, and the directory before it.
func (n *Name) add(part, before string) {
	if uid := podOf(part); uid != "" {
		*n = Name{Pod: uid} // a container around it runs the node
		// containerd without systemd's driver: SLICE:PREFIX:ID, one directory below its own unit
		if _, rest, ok := strings.Cut(part, ":"); ok {
			if prefix, id, ok := strings.Cut(rest, ":"); ok && isID(id) {
				n.Runtime, n.ID = runtimeOf(prefix), id
			}
		}
		return
	}
	if runtime, id := containerOf(part, before, n.Pod != ""); id != "" {
		n.Runtime, n.ID, n.Unit = runtime, id, ""
		return
	}
	if isUnit(part) {
		n.Unit = unescape(part)
	}
}

// podOf returns the UID in the directory of a pod: "pod5c8b1e9a-...", or
// "kubepods-burstable-pod5c8b1e9a_....slice" of systemd; "" if it is none.
func podOf(part string) string {
	name, _, _ := strings.Cut(part, ":")
	name = strings.TrimSuffix(name, ".slice")
	i := strings.LastIndex(name, "pod")
	if i < 0 || i > 0 && !(name[i-1] == '-' && strings.Contains(name[:i], "kubepods")) {
		return ""
	}
	uid := strings.ReplaceAll(name[i+len("pod"):], "_", "-")
	switch {
	case len(uid) == 36 && isHex(strings.ReplaceAll(uid, "-", "")) && strings.Count(uid, "-") == 4,
		len(uid) == 32 && isHex(uid):
		return uid
	}
	return ""
}

// containerOf returns runtime and ID of the container whose directory is part; "" if it is none.
func containerOf(part, before string, inPod bool) (runtime, id string) {
	switch {
	case isID(part): // without systemd: /docker/ID, /kubepods/.../podUID/ID
		switch {
		case before == "docker" || before == "buildkit":
			return "docker", part
		case before == "libpod_parent":
			return "podman", part
		case strings.HasPrefix(before, "ecs") || isHex(before) && len(before) == 32:
			return "ecs", part
		}
		return "", part
	case strings.HasPrefix(part, "lxc.payload."):
		return "lxc", strings.TrimPrefix(part, "lxc.payload.")
	case before == "lxc":
		return "lxc", part
	}
	if name, ok := strings.CutPrefix(part, "systemd-nspawn@"); ok {
		return "nspawn", unescape(strings.TrimSuffix(name, ".service"))
	}
	name := strings.TrimSuffix(part, ".scope")
	if machine, ok := strings.CutPrefix(name, "machine-"); ok && name != part {
		machine = unescape(machine)
		if strings.HasPrefix(machine, "qemu-") || strings.HasPrefix(machine, "lxc-") {
			kind, rest, _ := strings.Cut(machine, "-")
			_, called, ok := strings.Cut(rest, "-") // the number of the machine at libvirt
			if ok && called != "" {
				return map[string]string{"qemu": "vm", "lxc": "lxc"}[kind], called
			}
		}
		return "nspawn", machine
	}
	if i := strings.LastIndexByte(name, '-'); i >= 0 && isID(name[i+1:]) {
		if r := runtimeOf(name[:i]); r != "" {
			return r, name[i+1:]
		}
		if inPod {
			return "", name[i+1:]
		}
	}
	return "", ""
}

// runtimeOf returns the runtime whose scopes have a prefix; "" for monitors of containers, such as
// conmon, and for prefixes that are not known.
func runtimeOf(prefix string) string {
	switch prefix {
	case "docker":
		return "docker"
	case "cri-containerd", "nerdctl", "containerd":
		return "containerd"
	case "crio", "cri-o":
		return "cri-o"
	case "libpod":
		return "podman"
	}
	return ""
}

// isID reports whether s is the ID of a container: 64 hexadecimal digits.
func isID(s string) bool { return len(s) == 64 && isHex(s) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// isUnit reports whether a directory is a unit of systemd that runs programs.
func isUnit(part string) bool {
	for _, end := range []string{".service", ".scope", ".socket", ".mount", ".swap"} {
		if len(part) > len(end) && strings.HasSuffix(part, end) {
			return true
		}
	}
	return false
}

// unescape decodes \xHH, with which systemd escapes bytes of names: "qemu\x2d1\x2dvm" is
// "qemu-1-vm". Escapes of control characters stay.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			high, low := digit(s[i+2]), digit(s[i+3])
			if c := high<<4 | low; high >= 0 && low >= 0 && c >= ' ' && c < 0x7f {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// digit returns the value of a hexadecimal digit; -1 if it is none.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
