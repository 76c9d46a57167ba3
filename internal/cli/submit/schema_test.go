package submit

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/berthq/berth/examples"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
)

// printedSchema is what submit schema prints, compiled.
func printedSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var out, errs bytes.Buffer
	env := cli.Env{Args: []string{"schema"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	if code := cli.Execute(t.Context(), Root(env), env); code != 0 {
		t.Fatalf("submit schema: exit %d, %s", code, errs.String())
	}
	doc, err := jsonschema.UnmarshalJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("berth.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("berth.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// complaint is what the schema says against the first document of a YAML text.
func complaint(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestSchemaTakesTheExamples(t *testing.T) {
	t.Parallel()
	schema := printedSchema(t)
	files, err := fs.Glob(examples.Specs, "*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(examples.Specs, file)
		if err != nil {
			t.Fatal(err)
		}
		if err := complaint(t, schema, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// What submit init writes is a spec for the schema and for the parser.
func TestSchemaTakesTheTemplates(t *testing.T) {
	t.Parallel()
	schema := printedSchema(t)
	for _, kind := range kinds {
		text, err := templates.ReadFile("templates/" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := complaint(t, schema, text); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		specs, err := job.ParseSpecs(text, kind)
		if err != nil || len(specs) != 1 {
			t.Errorf("%s: %d specs, %v", kind, len(specs), err)
			continue
		}
		if err := job.Validate(specs[0]); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The schema and the parser say yes and no to the same specs.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	schema := printedSchema(t)
	for text, good := range map[string]bool{
		"command: [sleep, 30]": true,
		"command: echo hi":     true,
		"name: 7\nlabels: {run: 3, dry: true}\ncommand: [x]":                                                  true,
		"command: [x]\nenv: {A: 1, B: }":                                                                      true,
		"command: [x]\nresources: {gpus: auto, gpu_memory: 20Gi, memory: 1000, share: shared}":                true,
		"command: [x]\nresources: {gpus: 2}\ntime_limit: 1-02:03:04":                                          true,
		"command: [x]\nbegin: 2026-01-31T08:00:00+01:00":                                                      true,
		"command: [x]\nmatrix: {tp-size: [1, 2]}\nexclude: [{tp-size: 1}]\ngroup: {max_concurrent: 2}":        true,
		"steps: [{name: a, command: [x], input: numpy, output: torch}]":                                       true,
		"command: [x]\nretry: {retries: 2, backoff: {initial: 30s, max: 10m, factor: 2}, never_on: [exit:2]}": true,
		"command: [x]\nimage: y\nvolumes: [/a:/b]\ncontainer: {shm_size: 16Gi, pull: never}":                  true,
		"command: [x]\ncolour: red":                                                                           false,
		"command: {a: b}":                                                                                     false,
		"command: [x]\nresources: {gpu: 1}":                                                                   false,
		"command: [x]\nresources: {gpus: -1}":                                                                 false,
		"command: [x]\nresources: {gpus: many}":                                                               false,
		"command: [x]\nresources: {share: maybe}":                                                             false,
		"command: [x]\npriority: high":                                                                        false,
		"command: [x]\nbegin: soon":                                                                           false,
		"command: [x]\ntime_limit: 30":                                                                        false,
		"steps: [{command: [x], input: paper}]":                                                               false,
		"command: [x]\npreemptible: true":                                                                     false,
		"- command: [x]\n- colour: red":                                                                       false,
		"command: [x]\ndepends_on: [a]\nif_parent_fails: explode":                                             false,
		"- command: [x]": true,
	} {
		specs, parsed := job.ParseSpecs([]byte(text), "test")
		if parsed == nil {
			parsed = job.Validate(specs[0])
		}
		said := complaint(t, schema, []byte(text))
		if (parsed == nil) != good || (said == nil) != good {
			t.Errorf("%q: want accepted=%v\nparser: %v\nschema: %v", text, good, parsed, said)
		}
	}
}
