package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image writes the container image for all architectures as one file, an OCI image layout in a tar
// archive: podman load, skopeo copy oci-archive:FILE and nerdctl load read it. It is from scratch:
// the program, the certificates of public authorities, and the names of its users.
func (r *release) image() error {
	dir, err := os.MkdirTemp("", "culprit-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range r.arches {
		image, err := r.imageOf(arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image,
			Descriptor: v1.Descriptor{
				MediaType: types.OCIManifestSchema1,
				Platform:  &v1.Platform{OS: "linux", Architecture: arch},
			},
		})
	}
	// One name for all architectures: podman and containerd choose the manifest of the machine.
	named := mutate.AppendManifests(
		mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
			Add: index,
			Descriptor: v1.Descriptor{
				MediaType: types.OCIImageIndex,
				Annotations: map[string]string{
					"org.opencontainers.image.ref.name": "localhost/culprit:" + r.tag(),
				},
			},
		})
	if _, err := layout.Write(dir, named); err != nil {
		return err
	}
	if err := setTimes(dir, r.time); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, "culprit-"+r.version+"-image.tar"))
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	return errors.Join(addTree(w, dir, "", r.time), w.Close(), f.Close())
}

// tag returns the version as a tag of an image, which has no ~ and no +.
func (r *release) tag() string { return strings.NewReplacer("~", "-", "+", "-").Replace(r.version) }

func (r *release) imageOf(arch string) (v1.Image, error) {
	files, err := r.layer(arch)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(
		mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON,
	)
	if image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "culprit tools/dist"},
	}); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.settings(arch, image))
}

// settings returns the image's settings, with the layers that it has.
func (r *release) settings(arch string, image v1.Image) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		c = &v1.ConfigFile{} // an image in memory has one
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: r.time}
	c.Config = v1.Config{
		Entrypoint: []string{"/culprit"},
		Cmd:        []string{"serve", "--dir", "/var/lib/culprit"},
		Env:        []string{"PATH=/", "CULPRIT_DIR=/var/lib/culprit"},
		WorkingDir: "/",
		Volumes:    map[string]struct{}{"/var/lib/culprit": {}},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "culprit",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return c
}

// layer returns the files of the image as a tar archive.
func (r *release) layer(arch string) ([]byte, error) {
	program, err := os.ReadFile(r.program(arch))
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for c := range bundle.Roots() {
		if c.Constraint != nil {
			continue // trusted for some certificates only, which a file of roots cannot express
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate}); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string // a directory ends in /
		mode int64
		data []byte
	}{
		{"culprit", 0o755, program},
		{"etc/", 0o755, nil},
		{"etc/culprit/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nculprit:x:61100:\n")},
		{"etc/passwd", 0o644, []byte(
			"root:x:0:0:root:/:/\nculprit:x:61100:61100:culprit recorder:/var/lib/culprit:/\n",
		)},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
		{"tmp/", 0o1777, nil},
		{"var/", 0o755, nil},
		{"var/lib/", 0o755, nil},
		{"var/lib/culprit/", 0o700, nil},
	} {
		h := &tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: r.time,
			Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Uname: "root", Gname: "root",
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
