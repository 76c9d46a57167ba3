package job

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ResultSchema is the JSON Schema of the messages on berth.results.> and berth.runs.>, made from [Result].
func ResultSchema() map[string]any {
	return MessageSchema("Berth result", "What a round of a job, or one attempt, came to.", reflect.TypeFor[Result](), map[string]string{
		"version":        "of this form: fields may be added, and none changes its meaning",
		"number":         "what people type; with index, round and job_id it names what ended",
		"index":          "of a task of a group; absent on the group's own result",
		"user_claimed":   "true when no credential proved who the user is",
		"params":         "of a sweep: this point",
		"round":          "1, then one more for each retry by hand",
		"attempt":        "0: it never ran",
		"outcome":        "of the last attempt; absent when it never ran",
		"state":          "of the job",
		"exit":           "absent when it never ran, or nobody saw it end",
		"evidence":       "the line, counter or fault that the reason rests on",
		"gpu_info":       "absent for CPU jobs, and when it never ran",
		"gpu_monitoring": "by index, a MIG device as 0.<instance>; a gauge that a card does not have is absent",
		"tasks":          "of a group: how many of its tasks ended how",
		"output":         "what the job wrote to its BERTH_RESULT_FILE, if it was JSON",
	})
}

// MessageSchema is the JSON Schema of a message that Berth writes, made from its type: what is always there is required.
// Fields that it does not know are allowed, since a newer Berth may add some. says describes fields at the top.
func MessageSchema(title, description string, t reflect.Type, says map[string]string) map[string]any {
	schema := written(t)
	schema["$schema"], schema["title"], schema["description"] = SchemaDialect, title, description
	properties := schema["properties"].(map[string]any)
	for name, text := range says {
		properties[name].(map[string]any)["description"] = text
	}
	return schema
}

// words are the types that are one of some words.
var words = map[reflect.Type][]string{
	reflect.TypeFor[State](): textOf(Queued, Held, Running, Succeeded, Failed, Cancelled, TimedOut, OOMGPU, OOMHost, Expired, Dead),
	reflect.TypeFor[Outcome](): textOf(OutcomeSucceeded, OutcomeFailed, OutcomeCancelled, OutcomeTimeout, OutcomeOOMGPU, OutcomeOOMHost,
		OutcomeInterrupted, OutcomeGPUFault, OutcomeMachineLost),
}

func textOf[T ~string](all ...T) []string {
	text := make([]string, len(all))
	for i, w := range all {
		text[i] = string(w)
	}
	return text
}

// written is the schema of how encoding/json writes a type.
func written(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	}
	if w, known := words[t]; known {
		return map[string]any{"type": "string", "enum": w}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return written(t.Elem()) // nil is left out, never null
	case reflect.Struct:
		return writtenStruct(t)
	case reflect.Map:
		return writtenMap(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": written(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Interface:
		return map[string]any{}
	}
	panic("job: no schema for " + t.String()) // a programmer's: the test of the schemas meets every type
}

func writtenStruct(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, f := range jsonFields(t) {
		properties[f.name] = written(f.Type)
		if tag := t.FieldByIndex(f.index).Tag.Get("json"); !strings.Contains(tag, ",omit") {
			required = append(required, f.name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	return schema
}

func writtenMap(t reflect.Type) map[string]any {
	schema := map[string]any{"type": "object", "additionalProperties": written(t.Elem())}
	if w, known := words[t.Key()]; known {
		schema["propertyNames"] = map[string]any{"enum": w}
	}
	return schema
}
