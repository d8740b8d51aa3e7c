package term

import (
	"fmt"
	"os"
	"strings"

	"culprit/measure"
	"culprit/view/show"

	"github.com/spf13/pflag"
)

// EngineHost selects the recording of one host in an engine.
type EngineHost struct {
	URL     string
	Host    string   // "": this machine
	Options []string // KEY=VALUE
}

// engineVariable has the address of the engine, engineOptionsVariable its options, separated by
// commas. Flags win.
const engineVariable, engineOptionsVariable = "CULPRIT_ENGINE", "CULPRIT_ENGINE_OPTIONS"

// engineOptionHelp is the help of the flag engine-option.
const engineOptionHelp = "--engine: token-file=, tenant=, ca-file=, host-label= and others"

// flags adds the flags of an engine. one also adds the one that selects a host.
func (e *EngineHost) flags(f *pflag.FlagSet, one bool) {
	f.StringVar(
		&e.URL, "engine", "",
		"read from this Prometheus, VictoriaMetrics or Mimir, to which servers send (default: $"+
			engineVariable+")",
	)
	if one {
		f.StringVar(
			&e.Host, "host", "",
			"--engine: the host, as its label instance says (default: this one)",
		)
	}
	f.StringArrayVar(
		&e.Options, "engine-option", nil, engineOptionHelp+" (default: $"+engineOptionsVariable+")",
	)
}

// fill takes what the flags left out from the environment.
func (e *EngineHost) fill() {
	if e.URL == "" {
		e.URL = os.Getenv(engineVariable)
	}
	if given := os.Getenv(engineOptionsVariable); len(e.Options) == 0 && given != "" {
		e.Options = strings.Split(given, ",")
	}
}

// isSet reports whether an engine is selected by flags.
func (e *EngineHost) isSet() bool { return e.URL != "" || e.Host != "" || len(e.Options) > 0 }

// Recorded is the recording of a machine, at a running server, in its archive or in an engine.
type Recorded = show.Recorded

// archives opens recordings.
type archives struct {
	open   func(place string) (Recorded, error) // Program.Recorded; nil: unsupported
	engine func(EngineHost) (Recorded, error)   // Program.Engine; nil: unsupported
}

func (p Program) archives() *archives { return &archives{open: p.Recorded, engine: p.Engine} }

// at opens the recording that the flags select.
func (a *archives) at(w *pastFlags) (Recorded, error) {
	where, err := w.location()
	switch {
	case err != nil:
		return nil, err
	case !w.engine.isSet() && a.open != nil:
		return a.open(where)
	case a.engine == nil:
		return nil, fmt.Errorf("read the recording: %w", measure.ErrUnsupported)
	}
	e := w.engine
	if e.fill(); e.URL == "" {
		return nil, usagef("--host needs --engine or $%s", engineVariable)
	}
	return a.engine(e)
}
