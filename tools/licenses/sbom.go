package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// The parts of a CycloneDX 1.6 document that are written: https://cyclonedx.org/docs/1.6/json/.
type (
	bill struct {
		Format     string     `json:"bomFormat"`
		Spec       string     `json:"specVersion"`
		Version    int        `json:"version"`
		Metadata   metadata   `json:"metadata"`
		Components []material `json:"components"`
	}
	metadata struct {
		Component material `json:"component"`
	}
	material struct {
		Type     string    `json:"type"` // "library", "application"
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		PURL     string    `json:"purl"`
		Licenses []license `json:"licenses,omitempty"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
)

// printSBOM prints the bill of materials of a built program. The modules are those that the program
// itself lists. version "" is the one that Go's build recorded.
func printSBOM(w io.Writer, root, program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the modules of the program: %w", err)
	}
	if version == "" {
		version = info.Main.Version
	}
	known, err := components(root)
	if err != nil {
		return err
	}
	versions := map[string]string{"std": strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{material{
		Type: "application", Ref: "culprit", Name: "culprit", Version: version,
		PURL: "pkg:generic/culprit@" + version,
	}}}
	for i := range known {
		c := &known[i]
		if c.kind == "golang" {
			if c.version = versions[c.name]; c.version == "" {
				continue // of another machine
			}
			delete(versions, c.name)
		}
		b.Components = append(b.Components, c.material())
	}
	if len(versions) > 0 {
		return fmt.Errorf("the program has modules that this tree does not link: %v", versions)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// material returns the component as the bill has it. One without files here has no license there.
func (c *component) material() material {
	m := material{Type: "library", Ref: c.purl(), Name: c.name, Version: c.version, PURL: c.purl()}
	if c.read() == nil && c.id() != "" {
		var l license
		l.License.ID = c.id()
		m.Licenses = []license{l}
	}
	return m
}
