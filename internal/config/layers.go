package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/pflag"
)

// Layer is where a value came from. Later layers win.
type Layer string

// The layers.
const (
	LayerDefault     Layer = "default"
	LayerFile        Layer = "file"
	LayerEnvironment Layer = "environment"
	LayerFlag        Layer = "flag"
)

// Setting is one option as it turned out.
type Setting struct {
	Name  string // of the flag, without dashes
	Key   string // in the environment and in a file
	Value string // as text; a secret is hidden
	Layer Layer
	Where string // "worker.env:3", "BERTH_WORKER_SLOTS", "--slots"; "" for a default
}

// Settings are all options of a command, in the order they are documented.
type Settings []Setting

// Get finds a setting by the name of its flag.
func (s Settings) Get(name string) (Setting, bool) {
	i := slices.IndexFunc(s, func(x Setting) bool { return x.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return s[i], true
}

// Print writes a line for each setting, for --config-print.
func (s Settings) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, x := range s {
		from := string(x.Layer)
		if x.Where != "" {
			from += " " + x.Where
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", x.Key, quoteValue(x.Value), from)
	}
	return tw.Flush()
}

// option is a field of a settings struct, described by its tags: `env` is the key without its prefix, `envDefault`
// the default, `usage` one line, `value` the placeholder in it, `secret` hides the value.
type option struct {
	field               string
	name, key, usage    string
	placeholder, preset string
	list, secret, yesNo bool
}

// optionsOf lists the options of a settings struct.
func optionsOf(settings any, prefix string) []option {
	var list []option
	t := reflect.TypeOf(settings)
	for f := range t.Fields() {
		key := f.Tag.Get("env")
		list = append(list, option{
			field: f.Name, key: prefix + key, name: strings.ToLower(strings.ReplaceAll(key, "_", "-")),
			usage: f.Tag.Get("usage"), placeholder: f.Tag.Get("value"), preset: f.Tag.Get("envDefault"),
			list: f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map, yesNo: f.Type.Kind() == reflect.Bool, secret: f.Tag.Get("secret") != "",
		})
	}
	return list
}

func keysOf(options []option) []string {
	keys := make([]string, len(options))
	for i, o := range options {
		keys[i] = o.key
	}
	return keys
}

// textFlag holds a flag as it was typed; a list may be given several times.
type textFlag struct {
	text string
	o    option
}

func (f *textFlag) String() string { return f.text }
func (f *textFlag) Type() string   { return f.o.placeholder }

// Set is called for each time the flag is given.
func (f *textFlag) Set(s string) error {
	if f.o.list && f.text != "" {
		s = f.text + "," + s
	}
	f.text = s
	return nil
}

func bind(fs *pflag.FlagSet, options []option) {
	for _, o := range options {
		usage := o.usage
		if o.preset != "" {
			usage += " (default " + o.preset + ")"
		}
		flag := fs.VarPF(&textFlag{o: o}, o.name, "", usage)
		if o.yesNo {
			flag.NoOptDefVal = "true"
		}
	}
}

// layered picks each option's value from the strongest layer that has one. An empty value is none.
func layered(options []option, flags *pflag.FlagSet, environ map[string]string, file map[string]entry, presets map[string]string) Settings {
	settings := make(Settings, len(options))
	for i, o := range options {
		s := Setting{Name: o.name, Key: o.key, Value: o.preset, Layer: LayerDefault}
		if preset, ok := presets[o.key]; ok {
			s.Value = preset
		}
		if e := file[o.key]; e.value != "" {
			s.Value, s.Layer, s.Where = e.value, LayerFile, e.where
		}
		if v := environ[o.key]; v != "" {
			s.Value, s.Layer, s.Where = v, LayerEnvironment, o.key
		}
		if f := lookup(flags, o.name); f != nil && f.Changed {
			s.Value, s.Layer, s.Where = f.Value.String(), LayerFlag, "--"+o.name
		}
		settings[i] = s
	}
	return settings
}

func lookup(flags *pflag.FlagSet, name string) *pflag.Flag {
	if flags == nil {
		return nil
	}
	return flags.Lookup(name)
}

// decode turns the texts into the fields of a settings struct, each error with the place its text came from.
func decode(settings Settings, options []option, prefix string, into any) error {
	values := map[string]string{}
	for _, s := range settings {
		values[s.Key] = s.Value
	}
	// The defaults are among the values already; the library would apply them to what was emptied on purpose, too.
	err := env.ParseWithOptions(into, env.Options{Environment: values, Prefix: prefix, DefaultValueTagName: "-"})
	if err == nil {
		return nil
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var errs []error
	for _, e := range all.Errors {
		var p env.ParseError
		if !errors.As(e, &p) {
			errs = append(errs, e)
			continue
		}
		i := slices.IndexFunc(options, func(o option) bool { return o.field == p.Name })
		errs = append(errs, settings[i].wrap(p.Err))
	}
	return errors.Join(errs...)
}

// wrap says where the bad value came from.
func (s Setting) wrap(err error) error {
	switch s.Layer {
	case LayerDefault:
		return fmt.Errorf("--%s: %w", s.Name, err)
	case LayerFile:
		return fmt.Errorf("%s: %s: %w", s.Where, s.Key, err)
	}
	return fmt.Errorf("%s: %w", s.Where, err)
}

// hidden replaces the secrets among the values.
func (s Settings) hidden(options []option) Settings {
	shown := slices.Clone(s)
	for i, o := range options {
		if o.secret && shown[i].Value != "" {
			shown[i].Value = "(hidden)"
		}
	}
	return shown
}

// environMap is the last value of each variable, as for exec.
func environMap(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}
