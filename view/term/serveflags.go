package term

import (
	"net"
	"slices"
	"strings"
	"time"

	"culprit/measure"

	"github.com/spf13/pflag"
)

// serveFlags holds the flags of `culprit serve` as they were written, and what they mean.
type serveFlags struct {
	s            Serving
	config       string // file
	keep         string
	size         string
	length       string
	budget       string
	profile      string
	write        writeFlags
	scriptMemory string
	masks        []string
	parseAccess  func() error
	parseExport  func() error
}

// define defines the flags. settings lists them too, as keys of the configuration file.
func (v *serveFlags) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(
		&v.config, configFlag, "",
		"configuration file; none: read no file (default: "+defaultConfig+" if it exists)",
	)
	f.StringVar(
		&v.s.Listen, "listen", defaultListen,
		"address and port; one that other machines can reach needs TLS",
	)
	f.StringVar(
		&v.s.Dir, "dir", "",
		"directory of the recording (default: $CULPRIT_DIR, /var/lib/culprit for root, "+
			"else culprit in $XDG_STATE_HOME or ~/.local/state)",
	)
	f.StringVar(
		&v.keep, "keep", "1s=7d,1m=14d,1h=90d", "how long to keep seconds, minutes and hours",
	)
	f.StringVar(&v.size, "size", "2GB", "limit on disk; the oldest data is deleted first")
	f.StringVar(
		&v.s.DiskFull, "disk-full", "oldest", "what to drop if the disk is full: oldest, newest",
	)
	f.StringVar(
		&v.budget, "budget", "10%",
		"limit of one CPU for recording; above it the most expensive part is suspended; "+
			"0: no limit",
	)
	f.StringVar(
		&v.profile, "profile", "49", "stack samples per second and CPU, recorded too; off for none",
	)
	f.BoolVar(
		&v.s.Commands, "command-lines", false,
		"record whole command lines, which may contain passwords (default: the program only)",
	)
	f.StringArrayVar(
		&v.masks, "mask", nil,
		"with --command-lines: also mask matches of this regular expression, except its group 1; "+
			"off: mask nothing (default: passwords, tokens and keys in the usual forms)",
	)
	f.BoolVar(
		&v.s.KernelLog, "kernel-log", true,
		"record messages of the kernel's log: warnings and worse, and known events",
	)
	f.StringVar(
		&v.scriptMemory, "script-memory", "256MB",
		"limit of the kernel memory that all running D programs take, by their buffers",
	)
	f.BoolVar(
		&v.s.PrintToken, "print-token", false,
		"print the address with the token also where the output is no terminal, such as a log",
	)
	v.parseAccess = accessFlags(f, &v.s.Access)
	v.write.define(f)
	v.parseExport = exportFlags(f, &v.s.Export)
	f.StringVar(
		&v.s.Engine.URL, "engine", "",
		"show all hosts that send to this Prometheus, VictoriaMetrics or Mimir on the page",
	)
	f.StringArrayVar(&v.s.Engine.Options, "engine-option", nil, engineOptionHelp)
	f.StringVar(
		(*string)(&v.s.HostURL), "host-url", "",
		"--engine: address of the server of each host, such as https://{host}:7410/; "+
			"{instance} and other labels are parts too",
	)
	f.StringVar(&v.s.Cert, "tls-cert", "", "file of the certificate and its chain")
	f.StringVar(&v.s.Key, "tls-key", "", "file of the private key")
	f.StringVar(
		&v.length, "for", "",
		"end after this time, such as 30s or 2h, but not before the first diagnosis",
	)
}

// parse sets v.s from the texts of the flags. Each flag is parsed by itself: what flags need of
// each other is in check. The error names the first flag that is wrong.
func (v *serveFlags) parse() (err error) {
	s := &v.s
	for _, parse := range []func() error{
		func() error { s.Keep, err = parseKeep(v.keep); return err },
		func() error { s.Size, err = parseSize("size", v.size); return err },
		func() error {
			s.ScriptMemory, err = parseSize("script-memory", v.scriptMemory)
			return err
		},
		v.parseAccess,
		func() error { s.Budget, err = parseShare(v.budget); return err },
		func() error { s.Profile, err = parseRate(v.profile); return err },
		v.write.parse,
		v.parseExport,
	} {
		if err := parse(); err != nil {
			return err
		}
	}
	if s.Masks, err = measure.ParseMasks(v.masks); err != nil {
		return usagef("--mask: %w", err)
	}
	if v.length != "" {
		if s.For, err = time.ParseDuration(v.length); err != nil || s.For < time.Second {
			return usagef("--for %q: give a time of a second or more, such as 30s", v.length)
		}
	}
	if err := v.s.HostURL.Check(); err != nil {
		return usagef("--host-url: %w", err)
	}
	if s.Engine.URL != "" && !isServer(s.Engine.URL) {
		return usagef("--engine: give the address of an engine, such as http://prometheus:9090")
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return usagef(
			"--listen %q: give an address and a port, such as %s", s.Listen, defaultListen,
		)
	}
	if full := []string{"oldest", "newest"}; !slices.Contains(full, s.DiskFull) {
		return usagef(
			"--disk-full %q is none of %s%s", s.DiskFull, strings.Join(full, ", "),
			didYouMean(s.DiskFull, full),
		)
	}
	return nil
}

// check returns an error for flags that do not fit each other.
func (v *serveFlags) check() error {
	if (v.s.Cert == "") != (v.s.Key == "") {
		return usagef("--tls-cert and --tls-key belong together")
	}
	var err error
	v.s.Targets, err = v.write.targets()
	return err
}
