package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// runtimes are podman's options with which containers run on machines without systemd, overlayfs
// and a unified cgroup hierarchy.
//
// table: options of podman
var runtimes = []string{
	"--cgroup-manager=cgroupfs", "--storage-driver=vfs", "--runtime=runc", "--events-backend=none",
}

// podman runs podman with storage of its own.
func podman(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("podman", append(append([]string{
		"--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run"),
	}, runtimes...), args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("podman %v: %v: %s", args, err, out)
	}
	return string(out)
}

// rights returns podman's options for the rights of the Kubernetes manifest.
func rights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/kubernetes/culprit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							SecurityContext struct {
								Capabilities struct{ Add []string }
							} `yaml:"securityContext"`
						}
					}
				}
			}
		}
		if d.Decode(&m) != nil {
			break
		}
		if m.Kind == "DaemonSet" {
			found = m.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add
		}
	}
	if len(found) == 0 {
		t.Fatal("the manifest has no capabilities")
	}
	options := []string{
		"--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=seccomp=unconfined",
		"--security-opt=apparmor=unconfined", "--read-only", "--read-only-tmpfs=false",
		"--pid=host", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
		"--volume=/sys:/sys:ro",
	}
	for _, c := range found {
		options = append(options, "--cap-add="+c)
	}
	return options
}

// TestImage loads the image with podman and diagnoses the machine in a container that has the rights
// of the Kubernetes manifest: it sees processes outside, and samples stacks.
func TestImage(t *testing.T) {
	needs(t, "root", "podman", "runc")
	dir := t.TempDir()
	podman(t, dir, "load", "--input", built(t, "-image.tar"))
	var images []struct {
		Names []string
	}
	if err := json.Unmarshal([]byte(podman(t, dir, "images", "--format=json")), &images); err != nil ||
		len(images) != 1 || len(images[0].Names) != 1 {
		t.Fatalf("%v: %v", err, images)
	}
	image := images[0].Names[0]
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(arguments ...string) string {
		t.Helper()
		return podman(t, dir, append(append(append([]string{"run", "--rm"}, rights(t)...),
			"--volume="+data+":/var/lib/culprit", image), arguments...)...)
	}
	t.Run("the manifest's settings", func(t *testing.T) {
		settings := filepath.Join(dir, "culprit.yaml")
		text, err := os.ReadFile("../../packaging/kubernetes/culprit.yaml")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "  culprit.yaml: |\n")
		block, _, _ := strings.Cut(rest, "---")
		if err := os.WriteFile(settings, []byte(strings.ReplaceAll(block, "    ", "")), 0o644); err != nil {
			t.Fatal(err)
		}
		podman(t, dir, "run", "--rm", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
			"--volume="+settings+":/etc/culprit/culprit.yaml:ro", "--network=none", image,
			"config", "check", "/etc/culprit/culprit.yaml")
	})
	out := run("serve", "--listen", "127.0.0.1:0", "--for", "11s")
	if !strings.Contains(out, "Checked cpu") {
		t.Errorf("no diagnosis:\n%s", out)
	}
	// podman itself runs outside of the container.
	if out := run("ps", "--csv", "1", "1"); !strings.Contains(out, ",podman,") {
		t.Errorf("podman is not among the processes:\n%s", out)
	}
	if out := run("profile", "--for", "1s"); !strings.Contains(out, "samples") {
		t.Errorf("no stacks:\n%s", out)
	}
	owner, err := exec.Command("stat", "-c", "%u %a", data).Output()
	if err != nil || string(owner) != "61100 755\n" {
		t.Errorf("the archive belongs to %q: %v", owner, err)
	}
}
