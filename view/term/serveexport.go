package term

import (
	"slices"
	"strings"

	"culprit/export/receiver"

	"github.com/spf13/pflag"
)

// Export holds the flags of `culprit serve` that say where findings and profiles are sent. The
// addresses are those of package receiver: https://host/path#token-file=FILE.
type Export struct {
	Alertmanagers, Webhooks, Pyroscopes []string
	LogFindings                         string // auto, on or off
}

// Addresses returns all addresses.
func (e *Export) Addresses() []string {
	return slices.Concat(e.Alertmanagers, e.Webhooks, e.Pyroscopes)
}

// exportFlags defines the flags of e. The caller calls parse after they are set; its error is a
// usage error.
func exportFlags(f *pflag.FlagSet, e *Export) (parse func() error) {
	f.StringArrayVar(
		&e.Alertmanagers, "alertmanager", nil,
		"send findings to this Alertmanager, such as http://host:9093; may be repeated. "+
			"Options follow a #: token-file=FILE, or user=NAME&password-file=FILE, ca-file=FILE, "+
			"cert-file=FILE&key-file=FILE, server-name=NAME, tenant=NAME, insecure",
	)
	f.StringArrayVar(
		&e.Webhooks, "webhook", nil,
		"send each change of the findings to this address as JSON; may be repeated; "+
			"options as above",
	)
	f.StringArrayVar(
		&e.Pyroscopes, "pyroscope", nil,
		"send profiles of each service to this Pyroscope each 15 s, such as http://host:4040; may "+
			"be repeated; options as above",
	)
	f.StringVar(
		&e.LogFindings, "log-findings", "auto",
		"print each change of the findings as a line of JSON on standard error: on, off, or auto: "+
			"where that is no terminal",
	)
	return func() error {
		for _, one := range []struct {
			flag      string
			addresses []string
		}{
			{"alertmanager", e.Alertmanagers}, {"webhook", e.Webhooks},
			{"pyroscope", e.Pyroscopes},
		} {
			for _, address := range one.addresses {
				if err := receiver.Check(address); err != nil {
					return usagef("--%s: %w", one.flag, err) // it may have a password
				}
			}
		}
		if words := []string{"auto", "on", "off"}; !slices.Contains(words, e.LogFindings) {
			return usagef("--log-findings %q is none of %s%s", e.LogFindings,
				strings.Join(words, ", "), didYouMean(e.LogFindings, words))
		}
		return nil
	}
}
