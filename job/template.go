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
var CommandWords = []string{"JobID", "Attempt", "ArrayIndex", "GPUIndex", "GPUUUID", "CheckpointDir", ScriptWord}

// commandWord is {{.Word}}, with a backslash before it to be left as it stands. Other braces are the command's own.
var commandWord = regexp.MustCompile(`\\?\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// Render fills in the words; \{{.x}} becomes {{.x}}. A word without a value is an error.
func (c Command) Render(words map[string]string) (Command, error) {
	var errs []error
	out := make(Command, len(c))
	for i, arg := range c {
		out[i] = commandWord.ReplaceAllStringFunc(arg, func(found string) string {
			if kept, escaped := strings.CutPrefix(found, `\`); escaped {
				return kept
			}
			name := commandWord.FindStringSubmatch(found)[1]
			value, ok := words[name]
			if !ok {
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
		if !strings.Contains(arg, "{{") {
			continue
		}
		for _, m := range commandWord.FindAllStringSubmatch(arg, -1) {
			if m[0][0] != '\\' {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// ParamWord is the word of a matrix key.
func ParamWord(key string) string { return strings.ReplaceAll(key, "-", "_") }

// knownWords are the words a command of s may use.
func (s Spec) knownWords() []string {
	known := slices.Clone(CommandWords)
	for _, key := range slices.Sorted(maps.Keys(s.Matrix)) {
		known = append(known, ParamWord(key))
	}
	if len(s.Points) > 0 {
		for _, key := range slices.Sorted(maps.Keys(s.Points[0])) {
			known = append(known, ParamWord(key))
		}
	}
	return known
}

func unknownWord(name string, known []string) error {
	return fmt.Errorf(`{{.%s}} is not a word here%s; to keep it as it stands write \{{.%s}}`, name, didYouMean(name, known), name)
}
