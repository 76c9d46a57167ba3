package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of a spec.
const (
	MaxSpecBytes    = 256 << 10 // encoded
	MaxNameLength   = 200       // characters
	MaxPriority     = 100
	DefaultPriority = 50
	maxLabels       = 64
	maxLabelLength  = 256
	maxRetries      = 1000
)

// minInterval is the shortest sampling of a run.
const minInterval = Duration(100 * time.Millisecond)

// EffectivePriority is the priority as given, or the default.
func (s Spec) EffectivePriority() int {
	if s.Priority == nil {
		return DefaultPriority
	}
	return *s.Priority
}

// Validate says everything that is wrong with a spec, in sentences for who wrote it; nil when it can be queued. It
// looks at the spec alone: whether a machine could run it is asked of the fleet.
func Validate(s Spec) error { return check(s).err() }

// ValidateWithin is Validate for a spec that is part of a message of so many bytes: one that fits into a small message is
// not written once more to see how large it is.
func ValidateWithin(s Spec, message int) error {
	ps := checkContent(s)
	if message > MaxSpecBytes {
		s.checkSize(&ps)
	}
	return ps.err()
}

func check(s Spec) problems {
	ps := checkContent(s)
	s.checkSize(&ps)
	return ps
}

func checkContent(s Spec) problems {
	var ps problems
	s.checkUnbuilt(&ps)
	s.checkNames(&ps)
	s.checkLease(&ps)
	s.checkCommand(&ps)
	s.checkScript(&ps)
	s.checkSteps(&ps)
	s.checkTasks(&ps)
	s.checkGroup(&ps)
	s.checkResources(&ps)
	s.checkContainer(&ps)
	s.checkEnv(&ps)
	s.checkTimes(&ps)
	s.checkDependencies(&ps)
	s.checkNear(&ps)
	s.checkRetry(&ps)
	s.checkFailReasons(&ps)
	s.checkStop(&ps)
	return ps
}

func (s Spec) checkUnbuilt(ps *problems) {
	v := reflect.ValueOf(s)
	for _, f := range jsonFields(v.Type()) {
		if isUnbuilt(f.name) && !v.FieldByIndex(f.index).IsZero() {
			ps.add("", "%s", unbuiltMessage(f.name))
		}
	}
}

func (s Spec) checkNames(ps *problems) {
	if s.Name != "" {
		checkText(ps, "name", s.Name, MaxNameLength)
	}
	if s.Project != "" && !ValidToken(s.Project) {
		ps.add("project", "%s: want 1 to 32 of a-z, 0-9, _ and -%s", quoted(s.Project), lowerHint(s.Project))
	}
	if s.IdempotencyKey != "" {
		checkText(ps, "idempotency_key", s.IdempotencyKey, MaxNameLength)
	}
	if s.Engine != "" {
		checkText(ps, "engine", s.Engine, MaxNameLength)
	}
	if len(s.Labels) > maxLabels {
		ps.add("labels", "has %d labels, at most %d are kept", len(s.Labels), maxLabels)
	}
	checkMap(ps, "labels", s.Labels)
	checkMap(ps, "resources.constraints", s.Resources.Constraints)
	if p := s.EffectivePriority(); p < 0 || p > MaxPriority {
		ps.add("priority", "%d: want 0 (last) to %d (first), %d is usual", p, MaxPriority, DefaultPriority)
	}
}

// lowerHint suggests the token that a name with capitals or blanks would be.
func lowerHint(s string) string {
	t := strings.NewReplacer(" ", "-", ".", "-").Replace(strings.ToLower(s))
	if t != s && ValidToken(t) {
		return " (did you mean `" + t + "`?)"
	}
	return ""
}

// checkText refuses what would garble a terminal or a log; markup is text like any other.
func checkText(ps *problems, path, s string, limit int) {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		ps.add(path, "is not UTF-8 text")
	case strings.TrimSpace(s) == "":
		ps.add(path, "is blank")
	case n > limit:
		ps.add(path, "is %d characters long, at most %d are allowed", n, limit)
	default:
		for _, r := range s {
			if !unicode.IsPrint(r) {
				ps.add(path, "%s holds the control character %U: only printable characters are allowed", quoted(s), r)
				return
			}
		}
	}
}

func checkMap(ps *problems, path string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		checkText(ps, path, k, maxLabelLength)
		if v := m[k]; v != "" {
			checkText(ps, path+"."+k, v, maxLabelLength)
		}
	}
}

func checkList(ps *problems, path string, list []string) {
	for i, s := range list {
		checkText(ps, indexed(path, i), s, maxLabelLength)
	}
}

func (s Spec) checkCommand(ps *problems) {
	if s.IsLease() {
		return // checkLease wants none
	}
	if len(s.Command) == 0 && len(s.Steps) == 0 {
		ps.add("command", "is missing: what shall be run? For example command: [python, train.py]")
		return
	}
	if len(s.Command) > 0 && strings.TrimSpace(s.Command[0]) == "" {
		ps.add("command", "starts with an empty word, so there is no program to run")
	}
	commands := s.commands()
	for _, at := range slices.Sorted(maps.Keys(commands)) {
		for i, word := range commands[at] {
			if strings.ContainsRune(word, 0) {
				ps.add(indexed(at, i), "holds a NUL byte, which no program can be given")
			}
		}
		s.checkWords(ps, at, commands[at])
	}
	if strings.ContainsRune(s.Workdir, 0) {
		ps.add("workdir", "holds a NUL byte")
	}
}

// checkWords refuses words that will have no value when the command starts.
func (s Spec) checkWords(ps *problems, at string, command Command) {
	words := command.words()
	if len(words) == 0 {
		return
	}
	known := s.knownWords()
	for _, word := range words {
		switch {
		case !slices.Contains(known, word):
			ps.add(at, "%s", unknownWord(word, known))
		case word == "ArrayIndex" && !s.hasTasks():
			ps.add(at, "{{.ArrayIndex}} has a value only in an array or a matrix: add array: 1-10, or leave it out")
		case word == ScriptWord && s.Script == "":
			ps.add(at, "%s has a value only in a job with a script: add script: TEXT, or leave it out", ScriptPath)
		case strings.HasPrefix(word, "GPU") && !s.mayHaveGPUs():
			ps.add(at, "{{.%s}} has a value only with a GPU: add gpus: 1 to the resources, or leave it out", word)
		}
	}
}

func (s Spec) checkEnv(ps *problems) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value := s.Env[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			ps.add("env", "%s cannot be the name of a variable", quoted(name))
		case value != nil && strings.ContainsRune(*value, 0):
			ps.add("env."+name, "holds a NUL byte")
		}
	}
	s.checkSecrets(ps)
	for i, file := range s.EnvFile {
		if file == "" || strings.ContainsRune(file, 0) {
			ps.add(indexed("env_file", i), "%s is not a file name", quoted(file))
		}
	}
}

func (s Spec) checkTimes(ps *problems) {
	if s.TimeLimit < 0 {
		ps.add("time_limit", "is negative")
	}
	if s.WaitTimeout < 0 {
		ps.add("wait_timeout", "is negative")
	}
	if s.Begin != nil && s.Deadline != nil && !s.Begin.Before(*s.Deadline) {
		ps.add("deadline", "%s: it may not begin before %s", s.Deadline.Format(time.RFC3339), s.Begin.Format(time.RFC3339))
	}
	t := s.Telemetry
	if t == nil {
		return
	}
	if t.Interval < 0 || t.Interval > 0 && t.Interval < minInterval {
		ps.add("telemetry.interval", "%s: the shortest is %s", t.Interval, minInterval)
	}
	checkChoice(ps, "telemetry.series", t.Series, []string{"summary", "none"})
}

// CheckWhen refuses what could not begin any more if it were queued now.
func (s Spec) CheckWhen(now time.Time) error {
	if d := s.Deadline; d != nil && !d.After(now) {
		return fmt.Errorf("the deadline %s has passed already", d.Format(time.RFC3339))
	}
	return nil
}

// checkChoice accepts "" and the listed words.
func checkChoice(ps *problems, path, word string, choices []string) {
	if word != "" && !slices.Contains(choices, word) {
		ps.add(path, "%s: want one of %s%s", quoted(word), strings.Join(choices, ", "), didYouMean(word, choices))
	}
}

func (s Spec) checkSize(ps *problems) {
	s.Points = nil // one of 100,000 tasks needs no small spec; the broker's limit for a message bounds them
	data, err := json.Marshal(s)
	if err != nil {
		ps.add("", "cannot be written as JSON: %s", err)
		return
	}
	if len(data) > MaxSpecBytes {
		ps.add("", "the spec is %d KiB, the limit is %d KiB: put data into files and name them", (len(data)+1023)>>10, MaxSpecBytes>>10)
	}
}

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
