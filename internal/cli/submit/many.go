package submit

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

// many are the flags that make one submit a group of tasks.
type many struct {
	params     []string // key=v1,v2
	paramsFile string
	fromLines  string

	maxConcurrent, maxGPUs, maxFailures int
}

func (f *flags) bindMany() {
	s := f.set
	s.StringVarP(&f.array, "array", "a", "", "one task for each index: 1-150, 0-9:2 or 1,5,7-9, %8 behind it for 8 at a time; BERTH_ARRAY_INDEX tells them apart")
	s.StringArrayVar(&f.many.params, "param", nil, "one task for each combination of `K=V1,V2`...; {{.K}} in the command is its value")
	s.StringVar(&f.many.paramsFile, "params-file", "", "one task for each row of a CSV `FILE`; {{.COLUMN}} in the command is its value")
	s.StringVar(&f.many.fromLines, "from-lines", "", "one task for each line of `FILE`, a command for bash; - is standard input")
	s.IntVar(&f.many.maxConcurrent, "max-concurrent", 0, "so many tasks of the group at a time")
	s.IntVar(&f.many.maxGPUs, "max-gpus", 0, "so many GPUs for the group at a time")
	s.IntVar(&f.many.maxFailures, "max-failures", 0, "start no more tasks when so many have failed")
}

// lineKey is the parameter under which a task has its line.
const lineKey = "line"

// checkMany finds flags of a group that contradict each other.
func (f *flags) checkMany() error {
	makers := []string{}
	for _, name := range []string{"array", "param", "params-file", "from-lines"} {
		if f.given(name) {
			makers = append(makers, "--"+name)
		}
	}
	if len(makers) > 1 {
		return exit.Errorf(exit.Usage, "%s exclude each other: each says by itself what the tasks are", strings.Join(makers, " and "))
	}
	for _, name := range []string{"max-concurrent", "max-gpus", "max-failures"} {
		if n, err := f.set.GetInt(name); err == nil && f.given(name) && n < 1 {
			return exit.Errorf(exit.Usage, "--%s %d: want 1 or more, or leave it out", name, n)
		}
	}
	return nil
}

// applyMany puts the tasks and the limits of the group on top of a spec.
func (f *flags) applyMany(s *job.Spec, env cli.Env) (err error) {
	if f.set.Lookup("param") == nil { // a command that reads specs and has no such flags
		return nil
	}
	put(f, "array", &s.Array, f.array)
	if f.given("param") {
		if s.Matrix, err = matrixOf(s.Matrix, f.many.params); err != nil {
			return exit.With(exit.Usage, err)
		}
	}
	if f.given("params-file") {
		if s.Points, err = rowsOf(env, f.many.paramsFile); err != nil {
			return err
		}
	}
	if !f.given("max-concurrent") && !f.given("max-gpus") && !f.given("max-failures") {
		return nil
	}
	if s.Group == nil {
		s.Group = &job.Group{}
	}
	put(f, "max-concurrent", &s.Group.MaxConcurrent, f.many.maxConcurrent)
	put(f, "max-gpus", &s.Group.MaxGPUs, f.many.maxGPUs)
	put(f, "max-failures", &s.Group.MaxFailures, f.many.maxFailures)
	return nil
}

// matrixOf adds each K=V1,V2 to a matrix; a key of the spec's own is replaced.
func matrixOf(base map[string][]any, params []string) (map[string][]any, error) {
	matrix := map[string][]any{}
	for _, p := range params {
		key, list, ok := strings.Cut(p, "=")
		if !ok || key == "" || list == "" {
			return nil, fmt.Errorf("--param %q: want K=V1,V2, for example lr=0.1,0.01", p)
		}
		if matrix[key] != nil {
			return nil, fmt.Errorf("--param names %s twice: write its values together, %s=V1,V2", key, key)
		}
		for v := range strings.SplitSeq(list, ",") {
			matrix[key] = append(matrix[key], scalar(v))
		}
	}
	for key, values := range base {
		if matrix[key] == nil {
			matrix[key] = values
		}
	}
	return matrix, nil
}

// scalar is a number where a number would be written just so in the command, else the text itself.
func scalar(s string) any {
	if n, err := strconv.ParseFloat(s, 64); err == nil && job.ParamText(n) == s {
		return n
	}
	return s
}

// rowsOf reads a table: the first line names the parameters, each other one is a task.
func rowsOf(env cli.Env, file string) ([]map[string]any, error) {
	name, data, err := load(env, file)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff")))) // as spreadsheets begin their files
	r.TrimLeadingSpace = true
	head, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: the first line names the parameters", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if twice := repeated(head); twice != "" {
		return nil, fmt.Errorf("%s:1: the column %s is there twice", name, twice)
	}
	var rows []map[string]any
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		row := make(map[string]any, len(head))
		for i, key := range head {
			row[key] = scalar(cells[i])
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has names and no row, so there is no task", name)
	}
	return rows, nil
}

func repeated(list []string) string {
	seen := map[string]bool{}
	for _, s := range list {
		if seen[s] {
			return s
		}
		seen[s] = true
	}
	return ""
}

// readLines makes one group of the lines of a file; blank lines and comments make no task.
func (f *flags) readLines(env cli.Env) ([]source, error) {
	name, data, err := load(env, f.many.fromLines)
	if err != nil {
		return nil, exit.With(exit.Spec, err)
	}
	var points []map[string]any
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			points = append(points, map[string]any{lineKey: line})
		}
	}
	if len(points) == 0 {
		return nil, exit.Errorf(exit.Spec, "%s has no line with a command", name)
	}
	return []source{{spec: job.Spec{Command: job.Command{"bash", "-lc", "{{." + lineKey + "}}"}, Points: points}, file: name}}, nil
}
