package submit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

// script is a file that was submitted by its name: what runs it, and what its head could not say here.
type script struct {
	command job.Command // job.ScriptPath in it is where its text will lie
	unknown []string    // directives that mean nothing here, one sentence each
}

// openScript takes `submit SCRIPT [ARG...]`. It returns nil where the words are something else. The options in the
// script's head become flags, unless the command line gives the same one.
func (f *flags) openScript(env cli.Env, args []string, dash int) (*script, error) {
	if len(args) == 0 || dash == 0 || !isScript(env, args[0]) {
		return nil, nil //nolint:nilnil // no script is no error
	}
	for _, name := range []string{"file", "from-lines"} {
		if f.given(name) {
			return nil, exit.Errorf(exit.Usage, "either a script or --%s, not both", name)
		}
	}
	_, text, err := load(env, args[0])
	if err != nil {
		return nil, exit.With(exit.Spec, err)
	}
	found, err := directives(text)
	if err != nil {
		return nil, exit.Errorf(exit.Spec, "%s: %w", args[0], err)
	}
	f.script = string(text)
	s := &script{command: append(interpreter(text), job.ScriptPath)}
	s.command = append(s.command, args[1:]...)
	if s.unknown, err = f.carryOutAll(found); err != nil {
		return nil, exit.Errorf(exit.Spec, "%s: %w", args[0], err)
	}
	if !f.given("name") {
		return s, f.set.Set("name", filepath.Base(args[0]))
	}
	return s, nil
}

// isScript tells a script from the program of a command whose -- was forgotten: it says what runs it, what it asks for,
// or is named as a script of the shell.
func isScript(env cli.Env, word string) bool {
	path := absolute(env.Dir, word)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	_, text, err := load(env, word)
	if errors.Is(err, os.ErrPermission) || err != nil || bytes.IndexByte(text, 0) >= 0 {
		return false
	}
	found, err := directives(text)
	return err != nil || len(found) > 0 || bytes.HasPrefix(text, []byte("#!")) || filepath.Ext(word) == ".sh"
}

// interpreter is what the first line names, or bash.
func interpreter(text []byte) job.Command {
	first, _, _ := strings.Cut(string(text), "\n")
	if line, found := strings.CutPrefix(first, "#!"); found {
		if words := strings.Fields(line); len(words) > 0 {
			return words
		}
	}
	return job.Command{"bash"}
}

// carryOutAll carries out the directives and tells those it does not know.
func (f *flags) carryOutAll(all []directive) (unknown []string, err error) {
	typed := map[string]bool{}
	f.set.Visit(func(flag *pflag.Flag) { typed[flag.Name] = true })
	labels, constraints, vars := maps.Clone(f.labels), maps.Clone(f.constraints), slices.Clone(f.env)
	for _, d := range all {
		sentence, err := f.carryOut(d, typed)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", d.line, err)
		}
		if sentence != "" {
			unknown = append(unknown, sentence)
		}
	}
	// These add up, and what was typed has the last word.
	f.labels, f.constraints = merged(f.labels, labels), merged(f.constraints, constraints)
	if len(vars) > 0 && len(f.env) > len(vars) {
		f.env = append(slices.Clone(f.env[len(vars):]), vars...)
	}
	return unknown, nil
}

// additive flags of the script stand beside those that were typed; all others give way to them.
var additive = []string{"label", "constraint", "env"}

func (f *flags) carryOut(d directive, typed map[string]bool) (unknown string, err error) {
	flag := f.meant(d)
	switch {
	case flag == nil && slices.Contains(reserved.Flags, f.plainName(d)):
		return "", fmt.Errorf("%s is not in this version yet", d.text())
	case flag == nil:
		return fmt.Sprintf("line %d: %s", d.line, d.text()), nil
	case flag.Name == "file" || flag.Name == "from-lines":
		return "", fmt.Errorf("%s cannot stand in a script: the script is the command", d.text())
	}
	value := d.value
	switch {
	case flag.NoOptDefVal != "" && !d.own && d.given:
		return "", fmt.Errorf("%s takes no value, not %q", d.text(), d.value)
	case flag.NoOptDefVal != "" && !d.own:
		value = flag.NoOptDefVal
	case !d.given:
		return "", fmt.Errorf("%s needs a value", d.text())
	}
	if typed[target(flag.Name)] && !slices.Contains(additive, flag.Name) {
		return "", nil
	}
	if err := f.set.Set(flag.Name, value); err != nil {
		return "", fmt.Errorf("%s %q: %w", d.text(), value, errors.Unwrap(err))
	}
	return "", nil
}

// plainName is the long name of a directive's option in Berth's words, "" where there is none.
func (f *flags) plainName(d directive) string {
	if d.slurm {
		return slurmNames[d.name]
	}
	return d.name
}

// meant is the flag of submit that a directive means; the global flags of the command line are none of a script's.
func (f *flags) meant(d directive) *pflag.Flag {
	var flag *pflag.Flag
	if name := f.plainName(d); len(name) == 1 {
		flag = f.set.ShorthandLookup(name)
	} else if name != "" {
		flag = f.set.Lookup(name)
	}
	if flag == nil || !f.own[flag.Name] {
		return nil
	}
	return flag
}

// target is the flag that a spelling sets.
func target(name string) string {
	switch name {
	case "gres":
		return "gpus"
	case "time":
		return "time-limit"
	case "job-name":
		return "name"
	}
	return name
}
