package runner

import (
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// Words are what the {{.Name}} of a command stand for.
type Words map[string]string

// WordsOf are the words of one run: .JobID .Attempt .ArrayIndex .GPUIndex .GPUUUID .CheckpointDir .Script and the
// parameters, with "-" as "_". A word that has no value here is absent.
func WordsOf(devices []telemetry.Device, ids IDs) Words {
	w := Words{}
	for key, value := range ids.Params {
		w[strings.ReplaceAll(key, "-", "_")] = job.ParamText(value)
	}
	w["JobID"], w["Attempt"] = ids.JobID, strconv.Itoa(ids.Attempt)
	if ids.ArrayIndex != nil {
		w["ArrayIndex"] = strconv.Itoa(*ids.ArrayIndex)
	}
	if ids.CheckpointDir != "" {
		w["CheckpointDir"] = ids.CheckpointDir
	}
	if ids.Script {
		w[job.ScriptWord] = ScriptFile(ids.StateDir)
	}
	if len(devices) > 0 {
		w["GPUUUID"], w["GPUIndex"] = names(devices)
	}
	return w
}

// Expand puts the words into a command. A word that this run does not have is the job's mistake: a [*StartError].
func Expand(command []string, words Words) ([]string, error) {
	expanded, err := job.Command(command).Render(words)
	if err != nil {
		return nil, &StartError{Code: 126, Reason: "the command cannot be filled in: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return expanded, nil
}
