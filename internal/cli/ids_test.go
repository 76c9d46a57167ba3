package cli_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/berthq/berth/internal/cli/operator"
)

// spoken are the ways to name one job.
var spoken = []string{"number", "range", "prefix", "name", "last", "task"}

// idVerbs are the verbs that take an ID, with the state that the job must be in for them.
var idVerbs = map[string]string{
	"status": "held", "show": "held", "explain": "held", "cancel": "held", "hold": "held", "release": "held", "set -P 70": "held",
	"logs": "ended", "wait": "ended", "results": "ended", "report": "ended", "retry": "ended", "dead show": "ended", "dead retry": "ended",
	"dead drop": "dead",
}

// readsEnded are the verbs that leave an ended job as it is.
var readsEnded = map[string]bool{"logs": true, "wait": true, "results": true, "report": true}

// waysOf are the ways to try with a verb: all with one that reads, one that changes and one of ended jobs. They resolve
// an ID with the code that all share; that a verb does so is seen by its taking a name, or for a dead letter a number.
func waysOf(typed string) []string {
	switch typed {
	case "show", "cancel", "logs":
		return spoken
	case "dead drop":
		return []string{"number", "range"} // what is no job has no name and no id
	}
	return []string{"name"}
}

// TestIDs names jobs in every way, to every verb that takes an ID: those of the command tree, so that none is forgotten.
func TestIDs(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:2x24Gi")
	known := map[string]bool{}
	for typed := range idVerbs {
		known[strings.Split(typed, " -")[0]] = true
	}
	takes := regexp.MustCompile(`\bID\b`)
	for path, cmd := range verbs(operator.Root(s.env(nil, nil, nil))) {
		if takes.MatchString(cmd.Use) != known[path] {
			t.Errorf("berth %s is typed %q: the table of verbs that take an ID has it: %v", path, cmd.Use, known[path])
		}
	}
	ended := map[string][2]string{} // by way: an ended job and its word, which those that only read can share
	n := 0
	for typed, state := range idVerbs {
		for _, way := range waysOf(typed) {
			n++
			job, seen := ended[way]
			if !seen || !readsEnded[typed] {
				job[0], job[1] = s.named(state, way, fmt.Sprintf("job-%d", n))
			}
			if readsEnded[typed] && way != "last" {
				ended[way] = job
			}
			id, word := job[0], job[1]
			code, stdout, stderr := s.berth(append(strings.Fields(typed), word, "-o", "name")...)
			if code != 0 {
				t.Errorf("berth %s %s (the %s of job %s): exit %d\n%s", typed, word, way, id, code, stderr)
			} else if got := strings.TrimSpace(stdout); typed != "logs" && got != id {
				t.Errorf("berth %s %s (the %s of job %s) meant %q", typed, word, way, id, got)
			}
		}
	}
	for _, way := range []string{"name", "task"} { // one word, one job: no range
		id, word := s.named("ended", way, "parent-"+way)
		if code, _, stderr := s.berth("submit", "-q", "--hold", "--after-ok", word, "--", "true"); code != 0 {
			t.Errorf("submit --after-ok %s (the %s of job %s): exit %d\n%s", word, way, id, code, stderr)
		}
	}
}

// named makes a job in that state and gives its id, and the word that means it.
func (s *station) named(state, way, name string) (id, word string) {
	s.t.Helper()
	if state == "dead" {
		id = s.letter()
	} else {
		flags := []string{"submit", "-q", "-J", name}
		if way == "task" {
			flags = append(flags, "-a", "1-2")
		}
		if state == "held" {
			flags = append(flags, "--hold")
		}
		id = s.must(append(flags, "--", "true")...)
		if state == "ended" {
			s.must("wait", id)
		}
	}
	switch way {
	case "range":
		return id, id + "-" + id
	case "prefix":
		var job struct {
			ID string `json:"job_id"`
		}
		if err := json.Unmarshal([]byte(s.must("show", id, "-o", "json")), &job); err != nil {
			s.t.Fatal(err)
		}
		return id, job.ID[:23]
	case "name":
		return id, name
	case "last":
		return id, "@last"
	case "task":
		return id + ".2", id + ".2"
	}
	return id, id
}

// TestCompletion presses the tab key: each kind of word, where it is wanted.
func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newStation(t, "sim:2x24Gi")
	job := s.held("-J", "waits", "-p", "vision")
	ended := s.must("submit", "-q", "-J", "over", "--", "true")
	s.must("wait", ended)
	s.must("project", "set", "vision", "--max-gpus", "2")
	lease := s.must("lease", "get", "-g", "1", "-o", "name")
	gpu := strings.Fields(s.must("gpus", "-o", "name"))[0]
	words := map[string]string{"ID": `(?m)^` + job + `\t`, "MACHINE": `(?m)^` + stationMachine + `\t`, "GPU": `(?m)^` + gpu + `\t`, "LEASE": `(?m)^` + lease + `\t`,
		"project": `(?m)^vision`}
	ends := regexp.MustCompile(`^(retry|report|dead)`)
	for path, cmd := range verbs(operator.Root(s.env(nil, nil, nil))) {
		argument := regexp.MustCompile(`\b(ID|MACHINE|GPU|LEASE)\b`).FindString(strings.TrimPrefix(cmd.Use, cmd.Name()))
		if strings.HasPrefix(path, "project ") && strings.Contains(cmd.Use, "NAME") {
			argument = "project"
		}
		want := words[argument]
		switch {
		case argument == "ID" && strings.HasPrefix(path, "dead"):
			want = `(?m)^@last\t` // nothing is dead here
		case argument == "ID" && ends.MatchString(path):
			want = `(?m)^` + ended + `\t`
		}
		s.tab(want, append(strings.Fields(path), "")...)
		for flag, want := range map[string]string{"project": words["project"], "machine": words["MACHINE"], "gpu-ids": words["GPU"], "after-ok": words["ID"], "state": `(?m)^oom_gpu`} {
			if f := cmd.Flags().Lookup(flag); f != nil && !strings.HasPrefix(path, "worker") && path != "up" {
				s.tab(want, append(strings.Fields(path), "--"+flag, "")...)
			}
		}
	}
}

// tab checks what the shell is offered after what was typed; "" wants nothing.
func (s *station) tab(want string, typed ...string) {
	s.t.Helper()
	if want == "" {
		return
	}
	code, stdout, stderr := s.berth(append([]string{"__complete"}, typed...)...)
	if code != 0 || !regexp.MustCompile(want).MatchString(stdout) {
		s.t.Errorf("after %q the shell is offered, exit %d:\n%s%s\nwant %s", typed, code, stdout, stderr, want)
	}
}
