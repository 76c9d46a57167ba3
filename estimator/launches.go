package estimator

import (
	"fmt"
	"maps"

	"github.com/berthq/berth/estimator/launch"
	"github.com/berthq/berth/job"
)

// lines are the launches in the job's command and steps, their config files joined.
func lines(spec job.Spec, params map[string]any, opts Options, warn func(string, ...any)) ([]launch.Line, error) {
	vars := map[string]string{}
	for name, value := range spec.Env {
		if value != nil {
			vars[name] = *value
		}
	}
	commands := [][]string{spec.Command}
	for _, s := range spec.Steps {
		commands = append(commands, s.Command)
	}
	var found []launch.Line
	for _, argv := range commands {
		found = append(found, launch.Parse(substitute(argv, params), vars)...)
	}
	for i := range found {
		if err := joinFiles(&found[i], opts, warn); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func joinFiles(line *launch.Line, opts Options, warn func(string, ...any)) error {
	for _, path := range line.ConfigFiles() {
		if opts.EngineFile == nil {
			warn("%s: the config file %s was not read; its flags are not counted", engineTitle(line.Program), path)
			continue
		}
		data, err := opts.EngineFile(path)
		if err != nil {
			warn("%s: the config file %s could not be read (%v); its flags are not counted", engineTitle(line.Program), path, err)
			continue
		}
		if err := line.Join(data); err != nil {
			return fmt.Errorf("%s %s: %w", engineTitle(line.Program), path, err)
		}
	}
	return nil
}

// scriptFlags are what a launched script is told: its own flags, and what the launcher's config files say.
func scriptFlags(line launch.Line) launch.Flags {
	flags := maps.Clone(line.Flags)
	maps.Copy(flags, line.ScriptFlags())
	return flags
}

// addBeside counts the launches that run at the same time: those put into the background, beside the widest of the
// others, which run one after another.
func (p *plan) addBeside(found []launch.Line) {
	background, foreground, most := 0, 0, 0
	for _, line := range found {
		n := lineGPUs(line)
		most = max(most, n)
		if line.Background {
			background += n
		} else {
			foreground = max(foreground, n)
		}
	}
	if more := background + foreground - most; more > 0 && p.world.gpus+more <= maxWorld {
		p.world.gpus += more
		p.why += fmt.Sprintf(", and %d for what runs beside it = %s", more, gpuCount(p.world.gpus))
	}
	p.warnf("the command starts %d launches; memory is for the widest", len(found))
}

// lineGPUs is how many GPUs a launch takes by its own flags; 0 when they cannot be read.
func lineGPUs(line launch.Line) int {
	var w world
	var err error
	if line.Program.Engine() {
		w, err = engineWorld(line.Program, newSettings(line.Flags, nil))
	} else {
		w, _, err = launcherWorld(line)
	}
	if err != nil {
		return 0
	}
	return w.gpus
}

// widest is the launch that asks for most, among those of the engine when the spec names one.
func widest(found []launch.Line, engine launch.Program) (launch.Line, bool) {
	if len(found) == 1 && (engine == "" || found[0].Program == engine) {
		return found[0], true
	}
	var best launch.Line
	most := -1
	for _, line := range found {
		if engine != "" && line.Program != engine {
			continue
		}
		if n := lineGPUs(line); n > most {
			best, most = line, n
		}
	}
	return best, most >= 0
}
