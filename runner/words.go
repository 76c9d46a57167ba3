package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/telemetry"
)

// Words are what the {{.Name}} of a command stand for.
type Words map[string]string

// WordsOf are the words of one run: .JobID .Attempt .ArrayIndex .GPUIndex .GPUUUID .CheckpointDir and the parameters,
// with "-" as "_". A word that has no value here is absent.
func WordsOf(devices []telemetry.Device, ids IDs) Words {
	w := Words{}
	for key, value := range ids.Params {
		w[strings.ReplaceAll(key, "-", "_")] = text(value)
	}
	w["JobID"], w["Attempt"] = ids.JobID, strconv.Itoa(ids.Attempt)
	if ids.ArrayIndex != nil {
		w["ArrayIndex"] = strconv.Itoa(*ids.ArrayIndex)
	}
	if ids.CheckpointDir != "" {
		w["CheckpointDir"] = ids.CheckpointDir
	}
	if len(devices) > 0 {
		w["GPUUUID"], w["GPUIndex"] = names(devices)
	}
	return w
}

// word is "{{.name}}", with a backslash before it to be left as it stands.
var word = regexp.MustCompile(`\\?\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// Expand puts the words into a command. Other braces are the command's own business; \{{.x}} stays {{.x}}.
func Expand(command []string, words Words) ([]string, error) {
	var unknown []string
	expanded := make([]string, len(command))
	for i, arg := range command {
		expanded[i] = word.ReplaceAllStringFunc(arg, func(found string) string {
			if rest, escaped := strings.CutPrefix(found, `\`); escaped {
				return rest
			}
			name := word.FindStringSubmatch(found)[1]
			value, ok := words[name]
			if !ok {
				unknown = append(unknown, found)
			}
			return value
		})
	}
	if len(unknown) == 0 {
		return expanded, nil
	}
	return nil, &StartError{Code: 126, Reason: fmt.Sprintf("the command uses %s, which this job does not have (it has .%s)",
		strings.Join(unknown, ", "), strings.Join(slices.Sorted(maps.Keys(words)), " ."))}
}

// text is a parameter as a person would write it on a command line.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
		return ""
	}
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(b)
}
