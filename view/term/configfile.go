package term

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"culprit/yamlfile"

	"github.com/spf13/pflag"
)

const (
	defaultConfig = "/etc/culprit/culprit.yaml"
	configFlag    = "config"
	noConfig      = "none" // the value of --config that reads no file
)

// ConfigText is a configuration file as it was read.
type ConfigText struct {
	Name string // the file in errors
	Text []byte
	// Readable: users other than the owner and the group can read the file.
	Readable bool
}

// Configuration is what `culprit serve` has read of its configuration file.
type Configuration struct {
	File string // its name; "": none was read
	// Passed are the values of the file as JSON, for the processes of the server: what ReadConfig
	// returns in them.
	Passed []byte
	// Reload reads the file again. The error says what is wrong with it, and changes nothing.
	Reload func() (*Reloaded, error)
}

// Reloaded is a configuration file that was read again.
type Reloaded struct {
	// Passed replaces Configuration.Passed: keys that need a restart have the values of before.
	Passed  []byte
	Changed []string // keys that differ from before and take effect
	Restart []string // keys that differ and need a restart
	// Serving are the settings with Passed.
	Serving Serving
}

// configured is a configuration file with the flags beside it.
type configured struct {
	flags *pflag.FlagSet // all values: of the command line, then of the file
	v     *serveFlags
	given []*pflag.Flag  // of the command line
	file  *yamlfile.File // nil: there is none
}

// serving returns what the flags of the command line and the configuration file say.
func (p Program) serving(f *pflag.FlagSet) (Serving, error) {
	var given []*pflag.Flag
	f.Visit(func(one *pflag.Flag) { given = append(given, one) })
	c, err := p.configure(given)
	if err != nil {
		return Serving{}, err
	}
	s := c.serving(p)
	current := c.file
	s.Config.Reload = func() (*Reloaded, error) {
		r, next, err := p.reload(given, current)
		if err == nil {
			current = next
		}
		return r, err
	}
	return s, nil
}

// serving returns the settings, without Reload.
func (c *configured) serving(p Program) Serving {
	s := c.v.s
	s.PrintToken = s.PrintToken || p.Terminal.IsTTY
	if c.file != nil {
		s.Config.File, s.Config.Passed = c.file.Name, c.file.Encode()
	}
	return s
}

// configure reads the configuration file that the flags of the command line name, or the default
// one if it exists. The error is a usageError with all mistakes of the file, or that of reading.
func (p Program) configure(given []*pflag.Flag) (*configured, error) {
	text, err := p.readConfig(given)
	if err != nil {
		return nil, err
	}
	var file *yamlfile.File
	if text != nil {
		if file, err = parseConfig(text); err != nil {
			return nil, err
		}
	}
	return combine(given, file)
}

// readConfig returns the text of the configuration file; nil: there is none.
func (p Program) readConfig(given []*pflag.Flag) (*ConfigText, error) {
	path, must := defaultConfig, false
	for _, f := range given {
		if f.Name == configFlag {
			path, must = f.Value.String(), true
		}
	}
	if p.ReadConfig == nil || path == noConfig {
		return nil, nil
	}
	text, err := p.ReadConfig(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !must:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the configuration: %w (--config none reads no file)", err)
	}
	return &text, nil
}

// parseConfig parses a configuration file. The error is a usageError with its mistakes.
func parseConfig(text *ConfigText) (*yamlfile.File, error) {
	file, err := yamlfile.Parse(text.Name, text.Text, configKeys())
	if err != nil {
		return nil, usageError{Cause: err}
	}
	if !text.Readable {
		return file, nil
	}
	for _, v := range file.Values {
		s := settingOf(v.Name)
		texts := v.Texts
		for i := range v.Objects {
			texts = append(texts, objectText(&v.Objects[i], false))
		}
		for _, one := range texts {
			if s.mask != nil && s.mask(one) != one {
				return nil, usageError{Cause: &yamlfile.Mistake{
					At: v.At,
					Text: v.Name + " contains a password, and other users can read the file: " +
						"chmod o-r " + text.Name,
				}}
			}
		}
	}
	return file, nil
}

// configKeys returns the keys of the configuration file: the flags of `culprit serve`.
func configKeys() (keys []yamlfile.Key) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveFlags).define(f)
	f.VisitAll(func(one *pflag.Flag) {
		if !isKey(one) {
			return
		}
		if one.Name == writeKey {
			keys = append(keys, writeKeyOf())
			return
		}
		keys = append(keys, yamlfile.Key{
			Name: one.Name, Kind: kindOf(one), Check: checkAs(one.Name),
		})
	})
	return keys
}

// kindOf returns the kind of the key of a flag.
func kindOf(f *pflag.Flag) yamlfile.Kind {
	switch f.Value.Type() {
	case "bool":
		return yamlfile.Bool
	case "stringArray", "stringSlice":
		return yamlfile.Texts
	}
	return yamlfile.Text
}

// checkFlag returns what is wrong with the value of a key, as a flag says it. name is the key in
// errors.
func checkFlag(flag, name, text string) error {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	var v serveFlags
	v.define(f)
	err := f.Set(flag, text)
	if err == nil {
		err = v.parse()
	}
	if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "--"+flag, name))
	}
	return nil
}

// combine returns the values of the command line, and those of the file for all other keys.
func combine(given []*pflag.Flag, file *yamlfile.File) (*configured, error) {
	c := &configured{
		flags: pflag.NewFlagSet("", pflag.ContinueOnError), v: &serveFlags{}, given: given,
		file: file,
	}
	c.v.define(c.flags)
	for _, f := range given {
		for _, text := range flagTexts(f) {
			if err := c.flags.Set(f.Name, text); err != nil {
				return nil, usageError{Cause: err}
			}
		}
	}
	if file != nil {
		for _, v := range file.Values {
			if c.isGiven(v.Name) {
				continue
			}
			for _, text := range v.Texts {
				if err := c.flags.Set(v.Name, text); err != nil {
					return nil, usageError{Cause: &yamlfile.Mistake{At: v.At, Text: err.Error()}}
				}
			}
		}
	}
	if file != nil && !c.isGiven(writeKey) {
		if v := file.Value(writeKey); v != nil {
			if err := c.listTargets(v.Objects); err != nil {
				return nil, err
			}
		}
	}
	err := c.v.parse()
	if err == nil {
		err = c.v.check()
	}
	return c, c.positioned(err)
}

// isGiven reports whether the command line has a flag.
func (c *configured) isGiven(name string) bool {
	return slices.ContainsFunc(c.given, func(f *pflag.Flag) bool { return f.Name == name })
}

// flagTexts returns the texts that Set needs to copy a flag.
func flagTexts(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

var flagInText = regexp.MustCompile(`--[a-z][a-z-]*`) // table: made once, never changed

// positioned adds to an error about flags where the file sets the first of them.
func (c *configured) positioned(err error) error {
	if err == nil || c.file == nil {
		return err
	}
	for _, flag := range flagInText.FindAllString(err.Error(), -1) {
		name := flag[2:]
		if v := c.file.Value(name); v != nil && !c.isGiven(name) {
			text := strings.ReplaceAll(err.Error(), flag, name)
			return usageError{Cause: &yamlfile.Mistake{At: v.At, Text: text}}
		}
	}
	return err
}

// source returns where the value of a flag comes from: "flag", FILE:LINE:COLUMN or "default".
func (c *configured) source(name string) string {
	if c.isGiven(name) {
		return "flag"
	}
	if c.file != nil {
		if v := c.file.Value(name); v != nil {
			return v.At.String()
		}
	}
	return "default"
}

// reload reads the file again beside the flags of the command line. It returns what changes in a
// server that runs with old, and what it runs with then; nil: it runs without a file.
func (p Program) reload(
	given []*pflag.Flag, old *yamlfile.File,
) (*Reloaded, *yamlfile.File, error) {
	text, err := p.readConfig(given)
	if err != nil {
		return nil, nil, err
	}
	file := &yamlfile.File{}
	if text != nil {
		if file, err = parseConfig(text); err != nil {
			return nil, nil, err
		}
	}
	if _, err := combine(given, file); err != nil {
		return nil, nil, err
	}
	before, err := combine(given, old)
	if err != nil {
		return nil, nil, err
	}
	mixed := &yamlfile.File{Name: file.Name}
	for _, s := range settings() {
		from := file
		if !s.reload {
			from = old
		}
		if from == nil {
			continue
		}
		if v := from.Value(s.name); v != nil {
			mixed.Values = append(mixed.Values, *v)
		}
	}
	after, err := combine(given, mixed)
	if err != nil {
		return nil, nil, err
	}
	r := &Reloaded{Passed: mixed.Encode()}
	whole, err := combine(given, file)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range settings() {
		was := before.texts(s.name)
		switch {
		case !slices.Equal(was, after.texts(s.name)):
			r.Changed = append(r.Changed, s.name)
		case !slices.Equal(was, whole.texts(s.name)):
			r.Restart = append(r.Restart, s.name)
		}
	}
	r.Serving = after.serving(p)
	return r, mixed, nil
}

// texts returns the effective value of a flag, or the list of targets in the file.
func (c *configured) texts(name string) (all []string) {
	objects := c.objects(name)
	if objects == nil {
		return flagTexts(c.flags.Lookup(name))
	}
	for i := range objects {
		all = append(all, objectText(&objects[i], false))
	}
	return all
}

// objects returns the mappings of a key of the file; nil: its value is not made of them.
func (c *configured) objects(name string) []yamlfile.Object {
	if c.file != nil && name == writeKey && !c.isGiven(name) {
		if v := c.file.Value(name); v != nil {
			return v.Objects
		}
	}
	return nil
}

// shown returns the effective value of a setting and where it comes from, without secrets.
func (c *configured) shown(s setting) (texts []string, from string) {
	texts, from = []string{}, c.source(s.name)
	if dir := os.Getenv(directoryVariable); s.name == dirKey && dir != "" && from == "default" {
		return []string{dir}, "$" + directoryVariable
	}
	objects := c.objects(s.name)
	for i := range objects {
		texts = append(texts, s.shown(objectText(&objects[i], true)))
	}
	if objects == nil {
		for _, text := range c.texts(s.name) {
			texts = append(texts, s.shown(text))
		}
	}
	return texts, from
}

// directoryVariable has the directory of the recording where the flag and the key dirKey are not
// set.
const directoryVariable, dirKey = "CULPRIT_DIR", "dir"
