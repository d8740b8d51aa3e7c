package term

import (
	"slices"
	"strings"

	"culprit/export/remotewrite"
	"culprit/yamlfile"

	"github.com/spf13/pflag"
)

// The key remote-write of the configuration file is an address, or a list of addresses and
// mappings. A mapping has the address as url, and the flags of remote write without
// "remote-write-", which replace those of all targets.

const (
	writeKey    = "remote-write"
	writePrefix = writeKey + "-"
	urlField    = "url"
	nameField   = "name"
)

// writeKeyOf returns the key remote-write.
func writeKeyOf() yamlfile.Key {
	k := yamlfile.Key{
		Name: writeKey, Kind: yamlfile.Objects, Short: urlField,
		Fields: []yamlfile.Key{
			{Name: urlField, Need: true, Check: checkAs(writeKey)}, {Name: nameField},
		},
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(writeFlags).define(f)
	f.VisitAll(func(one *pflag.Flag) {
		if field, ok := strings.CutPrefix(one.Name, writePrefix); ok {
			k.Fields = append(k.Fields, yamlfile.Key{
				Name: field, Kind: kindOf(one), Check: checkAs(one.Name),
			})
		}
	})
	return k
}

// checkAs returns the check of a value as that of a flag.
func checkAs(flag string) func(name, text string) error {
	return func(name, text string) error { return checkFlag(flag, name, text) }
}

// listTargets adds the targets that the file lists. Each has the flags of remote write, but for the
// fields of its mapping. The error is a usageError with the position of a mapping.
func (c *configured) listTargets(list []yamlfile.Object) error {
	for i := range list {
		t, err := c.target(&list[i])
		if err == nil {
			err = t.Check()
		}
		if err != nil {
			text := strings.ReplaceAll(flagError(err).Error(), "--"+writePrefix, "")
			return usageError{Cause: &yamlfile.Mistake{At: list[i].At, Text: text}}
		}
		c.v.write.listed = append(c.v.write.listed, t)
	}
	return nil
}

// target returns the target of a mapping, unchecked.
func (c *configured) target(o *yamlfile.Object) (t remotewrite.Target, err error) {
	var own writeFlags
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.define(f)
	f.VisitAll(func(one *pflag.Flag) {
		field, ok := strings.CutPrefix(one.Name, writePrefix)
		if !ok {
			return
		}
		texts := flagTexts(c.flags.Lookup(one.Name))
		if v := o.Value(field); v != nil {
			texts = v.Texts
		}
		for _, text := range texts {
			if e := f.Set(one.Name, text); e != nil {
				err = e
			}
		}
	})
	if err == nil {
		err = own.parse()
	}
	t = own.t
	t.URL, t.Name = o.Text(urlField), o.Text(nameField)
	return t, err
}

// objectText returns a mapping in one line: its address, then the other fields, shown without their
// secrets or as they are.
func objectText(o *yamlfile.Object, shown bool) string {
	words := []string{o.Text(urlField)}
	for _, v := range o.Values {
		texts := slices.Clone(v.Texts)
		for i, text := range texts {
			if shown {
				texts[i] = settingOf(writePrefix + v.Name).shown(text)
			}
		}
		if v.Name != urlField {
			words = append(words, v.Name+"="+strings.Join(texts, ","))
		}
	}
	return strings.Join(words, " ")
}
