package job

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// CommandWords are the words every command may hold as {{.Word}}; the keys of the matrix come on top, "-" as "_".
var CommandWords = []string{"JobID", "Attempt", "ArrayIndex", "GPUIndex", "GPUUUID", "CheckpointDir"}

// commandWord is {{.Word}}, and {{"{{"}}, which stands for the braces themselves. Other braces are the command's own.
var commandWord = regexp.MustCompile(`\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\{\{\s*"\{\{"\s*\}\}`)

// Render fills in the words. A word without a value is an error.
func (c Command) Render(words map[string]string) (Command, error) {
	var errs []error
	out := make(Command, len(c))
	for i, arg := range c {
		out[i] = commandWord.ReplaceAllStringFunc(arg, func(found string) string {
			name := wordName(found)
			value, ok := words[name]
			switch {
			case name == "":
				return "{{"
			case !ok:
				errs = append(errs, unknownWord(name, slices.Sorted(maps.Keys(words))))
			}
			return value
		})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// words are the names a command uses, in order.
func (c Command) words() []string {
	var names []string
	for _, arg := range c {
		for _, m := range commandWord.FindAllString(arg, -1) {
			if name := wordName(m); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func wordName(found string) string {
	if m := commandWord.FindStringSubmatch(found); m != nil {
		return m[1]
	}
	return ""
}

// ParamWord is the word of a matrix key.
func ParamWord(key string) string { return strings.ReplaceAll(key, "-", "_") }

// knownWords are the words a command of s may use.
func (s Spec) knownWords() []string {
	known := slices.Clone(CommandWords)
	for _, key := range slices.Sorted(maps.Keys(s.Matrix)) {
		known = append(known, ParamWord(key))
	}
	return known
}

func unknownWord(name string, known []string) error {
	return fmt.Errorf("{{.%s}} is not a word here%s; for the braces themselves write {{\"{{\"}}", name, didYouMean(name, known))
}
