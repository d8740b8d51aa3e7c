package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // the format
)

// maintainer is the address in the packages. MAINTAINER replaces it.
const maintainer = "culprit maintainers <maintainers@culprit.invalid>"

// packages writes the Debian and the RPM package of one architecture. stage is an empty directory.
func (r *release) packages(arch, stage, program string) error {
	if err := r.stage(stage, "usr", program); err != nil {
		return err
	}
	who := os.Getenv("MAINTAINER")
	if who == "" {
		who = maintainer
	}
	if err := r.documents(stage, who); err != nil {
		return err
	}
	if err := setTimes(stage, r.time); err != nil {
		return err
	}
	values := map[string]string{
		"ARCH": arch, "VERSION": r.version, "STAGE": stage, "MAINTAINER": who,
	}
	// Scripts are named below the root.
	if err := os.Chdir(r.root); err != nil {
		return err
	}
	config, err := nfpm.ParseFileWithEnvMapping(
		"packaging/nfpm.yaml", func(name string) string { return values[name] },
	)
	if err != nil {
		return fmt.Errorf("packaging/nfpm.yaml: %w", err)
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.pack(&config, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

func (r *release) pack(config *nfpm.Config, format string) error {
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	info.MTime = r.time
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, f), f.Close())
}

// documents writes the files that only packages have: settings, and what Debian's policy asks for.
func (r *release) documents(stage, who string) error {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil // write reports it
		}
		return text
	}
	changelog := fmt.Sprintf(
		"culprit (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n",
		r.version, who, r.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"),
	)
	for path, data := range map[string][]byte{
		"usr/share/doc/culprit/copyright":           []byte(copyright),
		"usr/share/doc/culprit/changelog.gz":        packed(read("CHANGELOG.md")),
		"usr/share/doc/culprit/changelog.Debian.gz": packed([]byte(changelog)),
		"usr/share/lintian/overrides/culprit":       read("packaging/deb/lintian-overrides"),
		secret:                                      read("packaging/culprit.default"),
		"etc/culprit/culprit.yaml":                  read("packaging/culprit.yaml"),
	} {
		if len(data) == 0 {
			return fmt.Errorf("nothing to write to /%s", path)
		}
		if err := write(filepath.Join(stage, path), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyright is Debian's file of licenses. NOTICE has the texts.
const copyright = `culprit finds the bottleneck of a Linux machine.

Copyright 2026 the authors of culprit

License: Apache-2.0. On Debian systems its text is in
/usr/share/common-licenses/Apache-2.0.

What is linked into the program or bundled into its page is the work of others,
under the licenses that /usr/share/doc/culprit/NOTICE contains.
`
