package cli_test

import (
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/queue"
)

var updateForms = flag.Bool("update-forms", false, "write testdata/forms.golden anew")

// form is how one verb is typed to print rows.
type form struct {
	args func() []string // a fresh job for a verb that acts
	// people is true where table and wide are sentences, not columns.
	people bool
	quiet  bool // prints nothing into a pipe, as table and wide: scripts look at the exit code
}

// text are the verbs that print no rows: -o has nothing to choose there.
var text = map[string]string{
	"logs": "the job's bytes", "run": "the command's bytes", "up": "a daemon", "worker": "a daemon", "worker install": "a unit file",
	"worker uninstall": "a unit file", "top": "a full screen", "dashboard": "a daemon", "webhook": "a daemon", "join": "a line to type", "token": "a word to pass on",
	"submit schema": "JSON Schema", "submit init": "a spec", "submit validate": "a sentence a spec", "drain": "a deed", "undrain": "a deed",
	"gpus quarantine": "a deed", "gpus restore": "a deed", "lease reset": "a deed",
}

// TestForms types every verb in every form against a small real fleet. The verbs come from the command tree, so that a
// new one has to be put into one of the two tables.
func TestForms(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:32x24Gi")
	forms := s.forms()
	for path := range verbs(operator.Root(s.env(nil, nil, nil))) {
		if _, prints := forms[path]; !prints && text[path] == "" {
			t.Errorf("berth %s is neither among the verbs that print rows nor among those that do not", path)
		}
	}
	const file = "testdata/forms.golden"
	known, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	optional := optionalNames(string(known))
	var golden strings.Builder
	for _, path := range slices.Sorted(maps.Keys(forms)) {
		names := s.inEveryForm(path, forms[path], optional[path])
		fmt.Fprintf(&golden, "%s\n\tcsv: %s\n\tjson: %s\n", path, names.csv, names.json)
	}
	if *updateForms {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := golden.String(); got != string(known) && !*updateForms {
		t.Errorf("the names that programs read have changed (-update-forms writes %s):\n%s\nwant\n%s", file, got, known)
	}
}

// forms fills the fleet and says how each verb is typed.
func (s *station) forms() map[string]form {
	s.must("submit", "-J", "first", "-g", "1", "--wait", "--", "true")
	group := s.must("submit", "-q", "-J", "sweep", "--param", "lr=0.1,0.01", "--", "sh", "-c", `echo '{"loss": {{.lr}}}' > $BERTH_RESULT_FILE`)
	s.must("wait", group)
	long := s.must("submit", "-q", "-J", "long", "-g", "1", "-m", "6Gi", "--label", "team=nlp", "--", "sleep", "600")
	s.await(long, "running")
	s.must("lease", "get", "-g", "1", "--for", "1h")
	never := s.must("submit", "-q", "-J", "never", "--force", "-g", "99", "--", "true")
	s.held("-J", "held")
	s.must("project", "set", "vision", "--max-gpus", "2")
	s.letter()
	fixed := func(args ...string) func() []string { return func() []string { return args } }
	fresh := func(after ...string) func() []string { // a verb that acts on a job of its own
		return func() []string { return append([]string{s.held()}, after...) }
	}
	ended := func() []string {
		id := s.must("submit", "-q", "--", "true")
		s.must("wait", id)
		return []string{id}
	}
	return map[string]form{
		"status": {args: fixed()},
		"show":   {args: fixed("first"), people: true}, "results": {args: fixed("first")}, "report": {args: fixed("--days", "1")},
		"events": {args: fixed("--kind", "lease")}, "explain": {args: fixed(never), people: true},
		"estimate": {args: fixed("--model", "llama-3-70b", "--tp", "4", "-g", "auto"), people: true},
		"check":    {args: fixed("-g", "1"), people: true}, "doctor": {args: fixed(), people: true}, "version": {args: fixed(), people: true},
		"gpus": {args: fixed()}, "machines": {args: fixed()}, "project ls": {args: fixed()}, "project show": {args: fixed("vision", "default")},
		"project set": {args: fixed("vision", "--weight", "2")}, "lease ls": {args: fixed()}, "lease log": {args: fixed()},
		"lease get":     {args: fixed("-g", "1", "--wait", "30s"), people: true},
		"lease extend":  {args: func() []string { return []string{s.lease()} }, quiet: true},
		"lease release": {args: func() []string { return []string{s.lease()} }, quiet: true},
		"dead ls":       {args: fixed()}, "dead show": {args: fixed("first"), people: true},
		"submit": {args: fixed("--hold", "-J", "again", "--", "true"), people: true}, "wait": {args: fixed("first"), quiet: true},
		"cancel": {args: fresh(), people: true}, "hold": {args: fresh(), people: true}, "release": {args: fresh(), people: true},
		"set": {args: fresh("-P", "70"), people: true}, "retry": {args: ended, people: true},
		"dead retry": {args: ended, people: true}, "dead drop": {args: func() []string { return []string{s.letter()} }, people: true},
		"worker check": {args: fixed("--gpu-source", "sim:1x24Gi", "--name", "another"), people: true},
	}
}

// lease holds a GPU and gives the lease's number.
func (s *station) lease() string {
	s.t.Helper()
	return s.must("lease", "get", "-g", "1", "-o", "name")
}

// letter makes a job that the system cannot run, waits until it is on the list of the dead, and gives its number.
func (s *station) letter() string {
	s.t.Helper()
	before := strings.Fields(s.must("dead", "ls", "-o", "name"))
	s.publish("berth.jobs.default.mallory", "this is no job")
	for {
		for id := range strings.FieldsSeq(s.must("dead", "ls", "-o", "name")) {
			if !slices.Contains(before, id) {
				return id
			}
		}
		if s.t.Context().Err() != nil {
			s.t.Fatal("no dead letter came")
		}
	}
}

func (s *station) publish(subject, body string) {
	s.t.Helper()
	c := map[string]string{}
	for _, kv := range s.environ {
		key, value, _ := strings.Cut(kv, "=")
		c[key] = value
	}
	nc, err := queue.Connect(s.t.Context(), queue.ConnectOptions{URL: c["BERTH_SERVER"], Token: c["BERTH_TOKEN"], Timeout: patience})
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.RequestWithContext(s.t.Context(), subject, []byte(body)); err != nil {
		s.t.Fatal(err)
	}
}

// optionalNames are the JSON names of each verb that the golden file marks as absent where nothing is known.
func optionalNames(golden string) map[string][]string {
	all, path := map[string][]string{}, ""
	for line := range strings.Lines(golden) {
		if !strings.HasPrefix(line, "\t") {
			path = strings.TrimSpace(line)
		}
		for _, name := range strings.Fields(line) {
			if short, marked := strings.CutSuffix(name, "?"); marked {
				all[path] = append(all[path], short)
			}
		}
	}
	return all
}

// names are what programs read of one verb.
type names struct{ csv, json string }

var (
	fieldName = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[A-Za-z0-9_-]+)?$`)
	framed    = regexp.MustCompile(`[\x1b│┃─━┌┐└┘+|]`)
)

func (s *station) inEveryForm(path string, f form, optional []string) names {
	s.t.Helper()
	out := s.print(path, f)
	for columns := !f.people && !f.quiet; columns && s.t.Context().Err() == nil; { // of a list: the fleet may change between two of the forms
		again := s.print(path, f)
		columns, out = len(again[table.JSON]) != len(out[table.JSON]) && strings.Count(again[table.CSV], "\n") != strings.Count(out[table.CSV], "\n"), again
	}
	complain := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("berth %s %s", path, fmt.Sprintf(format, args...))
	}
	objects := readJSON(out[table.JSON], complain)
	if lines := readLines(out[table.JSONL], complain); len(lines) != len(objects) {
		complain("-o jsonl has %d lines, -o json %d objects:\n%s", len(lines), len(objects), out[table.JSONL])
	}
	head, rows := readCSV(out[table.CSV], complain)
	if rows == 0 || len(objects) == 0 {
		complain("printed nothing to look at:\n%s%s", out[table.CSV], out[table.JSON])
	}
	if ids := strings.Split(strings.TrimSuffix(out[table.Name], "\n"), "\n"); len(ids) != rows || slices.ContainsFunc(ids, func(id string) bool { return id == "" || strings.ContainsAny(id, " \t") }) {
		complain("-o name prints %q, where -o csv has %d rows", ids, rows)
	}
	readTables(out[table.Table], out[table.Wide], f, complain)
	return names{strings.Join(head, ","), strings.Join(keysOf(objects, optional, complain), " ")}
}

// print types a verb in each form.
func (s *station) print(path string, f form) map[table.Format]string {
	s.t.Helper()
	out := map[table.Format]string{}
	for _, o := range table.Formats {
		flags := append(strings.Fields(path), "-o", string(o))
		code, stdout, stderr := s.berth(append(flags, f.args()...)...)
		if code != 0 || strings.Contains(stderr, "panic") {
			s.t.Errorf("berth %s -o %s: exit %d\n%s%s", path, o, code, stdout, stderr)
		}
		out[o] = stdout
	}
	return out
}

// readJSON reads one document: an object, or a list of them.
func readJSON(text string, complain func(string, ...any)) []map[string]any {
	var list []map[string]any
	if json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	var one map[string]any
	if err := json.Unmarshal([]byte(text), &one); err != nil {
		complain("-o json: %v:\n%s", err, text)
	}
	return []map[string]any{one}
}

func readLines(text string, complain func(string, ...any)) []map[string]any {
	var all []map[string]any
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			complain("-o jsonl: %v: %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

// readCSV checks that there is a header, as many columns in each row, and no dash where nothing is known.
func readCSV(text string, complain func(string, ...any)) (head []string, rows int) {
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll() // it wants as many fields in each record
	if err != nil || len(all) == 0 {
		complain("-o csv: %v:\n%s", err, text)
		return nil, 0
	}
	for _, name := range all[0] {
		if !fieldName.MatchString(name) {
			complain("-o csv has a column %q", name)
		}
	}
	if sorted := slices.Sorted(slices.Values(all[0])); len(slices.Compact(sorted)) != len(all[0]) {
		complain("-o csv names a column twice: %q", all[0])
	}
	for _, row := range all[1:] {
		if slices.Contains(row, "-") {
			complain("-o csv says - where nothing is known: %q", row)
		}
	}
	return all[0], len(all) - 1
}

// readTables: nothing of a terminal in a pipe, and with -o wide every column that is there without it.
func readTables(plain, wide string, f form, complain func(string, ...any)) {
	if (strings.TrimSpace(plain) == "") != f.quiet || framed.MatchString(plain) || framed.MatchString(wide) {
		complain("prints this table into a pipe:\n%q\n%q", plain, wide)
	}
	if f.people || f.quiet {
		return
	}
	title, titles := strings.SplitN(plain, "\n", 2)[0], regexp.MustCompile(` {2,}`)
	wider := titles.Split(strings.SplitN(wide, "\n", 2)[0], -1)
	for _, column := range titles.Split(title, -1) {
		if !slices.Contains(wider, column) {
			complain("-o wide lacks the column %s: %q", column, wider)
		}
	}
}

// keysOf are the names that the objects have, the version among them; those that may be absent are marked, seen or not.
func keysOf(objects []map[string]any, optional []string, complain func(string, ...any)) []string {
	seen := map[string]bool{}
	for _, o := range objects {
		if o["version"] == nil {
			complain("-o json has no version in %v", o)
		}
		for key := range o {
			seen[key] = true
		}
	}
	for _, key := range optional {
		delete(seen, key)
		seen[key+"?"] = true
	}
	return slices.Sorted(maps.Keys(seen))
}
