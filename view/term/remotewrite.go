package term

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"culprit/export/remotewrite"

	"github.com/spf13/pflag"
)

// writeFlags holds the flags of remote write as they were written. They apply to all addresses.
type writeFlags struct {
	urls, headers, labels []string
	each, histograms      string
	t                     remotewrite.Target   // without its address
	listed                []remotewrite.Target // of the configuration file, in place of urls
}

// define defines the flags.
func (w *writeFlags) define(f *pflag.FlagSet) {
	t := &w.t
	f.StringArrayVar(
		&w.urls, "remote-write", nil,
		"send the recording to this address by Prometheus remote write, with "+
			"$CULPRIT_REMOTE_WRITE_TOKEN if set; repeat it for several receivers. Options follow "+
			"a #, as for --alertmanager; they replace the flags below",
	)
	f.StringVar(
		&w.each, "remote-write-each", "15s", "time between the sent samples: 1s, 5s, 15s, 60s",
	)
	f.StringVar(
		&w.histograms, "remote-write-histograms", string(remotewrite.Native),
		"how distributions are sent: native, classic",
	)
	f.StringArrayVar(
		&w.headers, "remote-write-header", nil,
		"header of each request, such as 'X-Scope-OrgID: tenant'; for tokens use the files below",
	)
	f.StringVar(
		&t.BearerTokenFile, "remote-write-token-file", "", "file with the bearer token",
	)
	f.StringVar(&t.BasicAuth.Username, "remote-write-user", "", "name for basic authentication")
	f.StringVar(
		&t.BasicAuth.PasswordFile, "remote-write-password-file", "", "file with its password",
	)
	f.StringVar(
		&t.TLS.CAFile, "remote-write-ca", "",
		"file of the CA of the receiver's certificate (default: those of the system)",
	)
	f.StringVar(&t.TLS.CertFile, "remote-write-cert", "", "file of the client certificate")
	f.StringVar(&t.TLS.KeyFile, "remote-write-key", "", "file of its private key")
	f.StringVar(
		&t.TLS.ServerName, "remote-write-server-name", "",
		"name in the receiver's certificate (default: the host of the address)",
	)
	f.StringArrayVar(
		&w.labels, "remote-write-label", nil, "label of each series, such as region=eu",
	)
	f.StringVar(
		&t.Instance, "remote-write-instance", "", "label instance (default: the name of the host)",
	)
	f.StringVar(&t.Job, "remote-write-job", "culprit", "label job")
}

// parse sets w.t from the texts of the flags, each by itself.
func (w *writeFlags) parse() (err error) {
	t := &w.t
	if t.Interval, err = parseInterval(w.each); err != nil {
		return usagef("--remote-write-each %q: give a time such as 15s", w.each)
	}
	if !slices.Contains(writeHistograms, w.histograms) {
		return usagef("--remote-write-histograms %q is none of %s%s", w.histograms,
			strings.Join(writeHistograms, ", "), didYouMean(w.histograms, writeHistograms))
	}
	t.Histograms = remotewrite.Histograms(w.histograms)
	// A header of the command line is not repeated: it may be a secret.
	if t.Headers, err = parsePairs(w.headers, ":"); err != nil {
		return usagef("--remote-write-header: give a name and a value, such as " +
			"'X-Scope-OrgID: tenant'")
	}
	if t.ExternalLabels, err = parsePairs(w.labels, "="); err != nil {
		return usagef("--remote-write-label: give a name and a value, such as region=eu")
	}
	alone := remotewrite.Target{
		Interval: t.Interval, Headers: t.Headers, ExternalLabels: t.ExternalLabels,
	}
	for _, u := range append([]string{"https://localhost/"}, w.urls...) {
		one := alone
		one.URL = u
		if err := flagError(one.Check()); err != nil {
			return err
		}
	}
	return nil
}

// targets returns a checked target for each address. Without an address the other flags are checked
// too.
func (w *writeFlags) targets() (all []remotewrite.Target, err error) {
	if len(w.listed) > 0 {
		return w.listed, flagError(remotewrite.CheckAll(w.listed))
	}
	if len(w.urls) == 0 {
		alone := w.t
		alone.URL = "https://localhost/"
		return nil, flagError(alone.Check())
	}
	for _, u := range w.urls {
		one := w.t
		one.URL = u
		all = append(all, one)
	}
	return all, flagError(remotewrite.CheckAll(all))
}

// writeHistograms are the values of --remote-write-histograms.
//
// table: a constant that Go cannot express
var writeHistograms = []string{string(remotewrite.Native), string(remotewrite.Classic)}

// targetFlags are the flags of the fields of a target.
//
// table: a constant that Go cannot express
var targetFlags = map[string]string{
	"url": "--remote-write", "interval": "--remote-write-each",
	"histograms": "--remote-write-histograms", "headers": "--remote-write-header",
	"bearer_token_file": "--remote-write-token-file", "basic_auth": "--remote-write-user",
	"tls": "--remote-write-ca", "external_labels": "--remote-write-label",
	"name": "--remote-write",
}

// flagError returns a mistake in a target as one in a flag.
func flagError(err error) error {
	var fault *remotewrite.Fault
	if !errors.As(err, &fault) {
		return err
	}
	return usagef("%s: %s", cmp.Or(targetFlags[fault.Field], "--remote-write"), fault.Text)
}

// parsePairs parses texts of a name and a value.
func parsePairs(texts []string, separator string) (map[string]string, error) {
	var out map[string]string
	for _, text := range texts {
		name, value, ok := strings.Cut(text, separator)
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return nil, errors.New("no pair")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out, nil
}
