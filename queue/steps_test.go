package queue

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// writers are who publishes the end of a job (publishEnd's verb), and the verbs that end a claim.
var (
	writers = []string{"finish", "requeue", "end", "forget", "certify", "janitor", "group"}
	enders  = []string{"finish", "requeue", "return"}
)

// Every place where a crash can separate two writes is crashed at by some test. A new one is found here first.
func TestEveryStepIsCrashedAt(t *testing.T) {
	t.Parallel()
	var code, tests strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			tests.Write(text)
		} else {
			code.Write(text)
		}
	}
	var steps []string
	for _, m := range regexp.MustCompile(`\.step\("([a-z]+:[a-z]+)"\)`).FindAllStringSubmatch(code.String(), -1) {
		steps = append(steps, m[1])
	}
	for _, m := range regexp.MustCompile(`\.step\(verb \+ "(:[a-z]+)"\)`).FindAllStringSubmatch(code.String(), -1) {
		verbs := enders
		switch m[1] {
		case ":result":
			verbs = writers
		case ":dispatch":
			verbs = []string{"requeue", "return"} // what is finished is not dispatched
		}
		for _, verb := range verbs {
			steps = append(steps, verb+m[1])
		}
	}
	for _, m := range regexp.MustCompile(`publishEnd\([^\n]*"([a-z]+)"\)`).FindAllStringSubmatch(code.String(), -1) {
		if !slices.Contains(writers, m[1]) {
			t.Errorf("%s publishes ends too: add it to writers", m[1])
		}
	}
	if len(steps) < 30 {
		t.Fatalf("only %d steps were found: %v", len(steps), steps)
	}
	slices.Sort(steps)
	for _, step := range slices.Compact(steps) {
		if !strings.Contains(tests.String(), `"`+step+`"`) {
			t.Errorf("no test crashes at %s", step)
		}
	}
}
