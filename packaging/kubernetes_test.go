package packaging_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// manifest is what of a Kubernetes object is checked here.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	ServiceAccountName string `yaml:"serviceAccountName"`
	Automount          *bool  `yaml:"automountServiceAccountToken"`
	HostPID            bool   `yaml:"hostPID"`
	HostNetwork        bool   `yaml:"hostNetwork"`
	Containers         []container
	Volumes            []struct {
		Name     string
		HostPath struct{ Path string } `yaml:"hostPath"`
	}
}

type container struct {
	Args            []string
	StartupProbe    probe `yaml:"startupProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	LivenessProbe   probe `yaml:"livenessProbe"`
	SecurityContext struct {
		Privileged             *bool
		Escalation             *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities           struct{ Add, Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct {
		Host, Path string
		Port       int
	} `yaml:"httpGet"`
}

// manifests reads the objects by their kind.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile("kubernetes/culprit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind] = m
	}
}

// TestManifestRights: the container has the capabilities of the systemd unit, those with which the
// server leaves root, and no other right.
func TestManifestRights(t *testing.T) {
	p := manifests(t)["DaemonSet"].Spec.Template.Spec
	c := p.Containers[0]
	s := c.SecurityContext
	if s.Privileged == nil || *s.Privileged || s.Escalation == nil || *s.Escalation ||
		!s.ReadOnlyRootFilesystem || p.Automount == nil || *p.Automount {
		t.Errorf("%+v", s)
	}
	unit, err := os.ReadFile("culprit.service")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CHOWN", "SETGID", "SETUID"}
	bounding := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`)
	for _, line := range bounding.FindAllStringSubmatch(string(unit), -1) {
		for _, c := range strings.Fields(line[1]) {
			want = append(want, strings.TrimPrefix(c, "CAP_"))
		}
	}
	got := slices.Sorted(slices.Values(s.Capabilities.Add))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("capabilities %v, want %v", got, want)
	}
	if !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("drops %v", s.Capabilities.Drop)
	}
}

// TestManifestVolumes: each mount has its volume, only the archive can be written, and no other
// path of the host is mounted.
func TestManifestVolumes(t *testing.T) {
	p := manifests(t)["DaemonSet"].Spec.Template.Spec
	paths := map[string]string{}
	for _, v := range p.Volumes {
		paths[v.Name] = v.HostPath.Path
	}
	got := map[string]bool{}
	for _, m := range p.Containers[0].VolumeMounts {
		host, ok := paths[m.Name]
		if !ok || host != "" && host != m.MountPath {
			t.Errorf("%s at %s is the path %q of the host", m.Name, m.MountPath, host)
		}
		got[m.MountPath] = m.ReadOnly
	}
	for path, readOnly := range map[string]bool{
		"/sys": true, "/etc/culprit": true, "/var/lib/culprit": false,
	} {
		if r, ok := got[path]; !ok || r != readOnly {
			t.Errorf("%s: mounted %v, read only %v, want %v", path, ok, r, readOnly)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("also mounted: %v", got)
	}
}

// TestManifestNames: names refer to what is there, and probes to paths of the API.
func TestManifestNames(t *testing.T) {
	all := manifests(t)
	d := all["DaemonSet"]
	p := d.Spec.Template.Spec
	for kind, m := range all {
		if kind != "Namespace" && m.Metadata.Namespace != all["Namespace"].Metadata.Name {
			t.Errorf("%s is in the namespace %q", kind, m.Metadata.Namespace)
		}
	}
	if p.ServiceAccountName != all["ServiceAccount"].Metadata.Name || !p.HostPID || !p.HostNetwork {
		t.Errorf("%+v", p)
	}
	for k, v := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Metadata.Labels[k] != v {
			t.Errorf("the selector %s=%s matches no pod", k, v)
		}
	}
	if all["ConfigMap"].Data["culprit.yaml"] == "" {
		t.Error("no settings")
	}
	api, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := p.Containers[0]
	for _, probe := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		g := probe.HTTPGet
		if g.Host != "127.0.0.1" || g.Port != 7410 || !strings.Contains(string(api), g.Path+":") {
			t.Errorf("probe %+v", g)
		}
	}
}

// TestManifestSchema: the objects follow Kubernetes's own schemas.
func TestManifestSchema(t *testing.T) {
	path, err := exec.LookPath("kubernetes-validate") // of PyPI; it has the schemas
	if err != nil {
		t.Skip("needs: tool kubernetes-validate")
	}
	if out, err := exec.Command(path, "--strict", "kubernetes/culprit.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
