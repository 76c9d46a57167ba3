package submit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

// source is a spec with where it was read.
type source struct {
	spec job.Spec
	file string // "" = the command line
}

// read gives the specs as they were written: the words after --, or the documents of the files.
func (f *flags) read(env cli.Env, args []string, dash int) ([]source, error) {
	if dash != 0 && len(args) > 0 {
		return nil, noDash(args)
	}
	switch {
	case f.given("from-lines") && (len(args) > 0 || len(f.files) > 0):
		return nil, exit.Errorf(exit.Usage, "--from-lines brings the commands itself").Hinted("leave the command, or -f, out")
	case f.given("from-lines"):
		return f.readLines(env)
	case len(args) > 0 && len(f.files) > 0:
		return nil, exit.Errorf(exit.Usage, "either a command after -- or -f, not both").
			Hinted("a spec says its command itself: command: [...]")
	case len(args) > 0:
		return []source{{spec: job.Spec{Command: args, Script: f.script}}}, nil
	case len(f.files) == 0:
		return nil, exit.Errorf(exit.Usage, "nothing to submit").Hinted("submit -- COMMAND [ARG...], or submit -f SPEC.yaml")
	}
	var all []source
	for _, file := range f.files {
		specs, err := readFile(env, file)
		if err != nil {
			return nil, err
		}
		all = append(all, specs...)
	}
	return all, nil
}

// noDash answers words without -- in front: a spec without -f, or a command.
func noDash(args []string) error {
	word := args[0]
	switch filepath.Ext(word) {
	case ".yaml", ".yml", ".json":
		return exit.Errorf(exit.Usage, "a job spec needs -f in front").Hinted("did you mean submit -f %s?", word)
	}
	return exit.Errorf(exit.Usage, "a command needs -- in front").Hinted("did you mean submit -- %s?", strings.Join(args, " "))
}

func readFile(env cli.Env, file string) ([]source, error) {
	name, data, err := load(env, file)
	if err != nil {
		return nil, exit.With(exit.Spec, err)
	}
	specs, err := job.ParseSpecs(data, name)
	if err != nil {
		return nil, exit.With(exit.Spec, err)
	}
	if len(specs) == 0 {
		return nil, exit.Errorf(exit.Spec, "%s: no job in it", name)
	}
	sources := make([]source, len(specs))
	for i, s := range specs {
		sources[i] = source{spec: s, file: name}
	}
	return sources, nil
}

func load(env cli.Env, file string) (name string, data []byte, err error) {
	var r io.Reader
	if file == "-" {
		name, r = "stdin", env.Stdin
	} else {
		opened, err := os.Open(absolute(env.Dir, file))
		if errors.Is(err, os.ErrNotExist) {
			return "", nil, fmt.Errorf("%s does not exist", file)
		}
		if err != nil {
			return "", nil, err
		}
		defer opened.Close()
		name, r = file, opened
	}
	data, err = io.ReadAll(io.LimitReader(r, job.MaxFileBytes+1))
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > job.MaxFileBytes {
		return "", nil, fmt.Errorf("%s is larger than %d MiB: that is no list of job specs", name, job.MaxFileBytes>>20)
	}
	return name, data, nil
}
