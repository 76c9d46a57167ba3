package job

import (
	"reflect"
	"time"
)

// SchemaDialect is the JSON Schema version of [SpecSchema].
const SchemaDialect = "https://json-schema.org/draft/2020-12/schema"

// SpecSchema is the JSON Schema of a spec file's documents, made from [Spec] as the parser is: a job, or a list of jobs.
// It says names, forms and choices; that a spec makes sense as a whole, and could run, is for [Validate] and the fleet to
// say.
func SpecSchema() map[string]any {
	one := map[string]any{"$ref": "#/$defs/job"}
	return map[string]any{
		"$schema": SchemaDialect,
		"title":   "Berth job",
		"$defs":   map[string]any{"job": schemaOf(reflect.TypeFor[Spec](), "")},
		"anyOf":   []any{one, map[string]any{"type": "array", "items": one}},
	}
}

// choices are the words that a field takes, by its path.
var choices = map[string][]string{
	"kind":             {string(KindLease)},
	"if_parent_fails":  {ParentFailsCancel, ParentFailsWait},
	"resources.share":  {string(Exclusive), string(Shared)},
	"telemetry.series": {"summary", "none"},
	"container.pull":   PullPolicies,
	"steps.input":      MemoryTypes(),
	"steps.output":     MemoryTypes(),
}

// forms are the types that read themselves: what their UnmarshalJSON and the reader of specs take.
var forms = map[reflect.Type]map[string]any{
	reflect.TypeFor[Command](): {
		"description": "a list is the argv, a string is a line for bash",
		"oneOf": []any{
			map[string]any{"type": "string"},
			map[string]any{"type": "array", "items": map[string]any{"type": []string{"string", "number", "boolean"}}},
		},
	},
	reflect.TypeFor[Count]():    {"description": "a whole number, or auto", "type": []string{"integer", "string"}, "minimum": 0, "pattern": "^(auto|[0-9]+)$"},
	reflect.TypeFor[Memory]():   {"description": "a size such as 20Gi, a number of MiB, or auto", "type": []string{"number", "string"}, "minimum": 0},
	reflect.TypeFor[Duration](): {"description": "a time such as 90s, 12h, 1d12h or 1-02:03:04", "type": "string"},
	reflect.TypeFor[time.Time](): {
		"description": "a moment, RFC 3339", "type": "string", "format": "date-time",
	},
}

// schemaOf is the schema of a type that stands at a path.
func schemaOf(t reflect.Type, path string) map[string]any {
	if form, known := forms[t]; known {
		return cloneSchema(form)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), path)
	case reflect.Struct:
		return structSchema(t, path)
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": valueSchema(t.Elem(), path)}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": valueSchema(t.Elem(), path)}
	case reflect.String:
		return stringSchema(path)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{} // any
}

// valueSchema is schemaOf for what a list or a map holds: text there may be written as a number or as true, and a
// variable without a value is null.
func valueSchema(t reflect.Type, path string) map[string]any {
	switch {
	case t.Kind() == reflect.String && len(choices[path]) == 0:
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	case t == reflect.TypeFor[*string]():
		return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
	}
	return schemaOf(t, path)
}

func structSchema(t reflect.Type, path string) map[string]any {
	properties := map[string]any{}
	for _, f := range jsonFields(t) {
		at := f.name
		if path != "" {
			at = path + "." + f.name
		}
		if !isUnbuilt(at) {
			properties[f.name] = schemaOf(f.Type, at)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func stringSchema(path string) map[string]any {
	words := choices[path]
	if len(words) == 0 {
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	}
	return map[string]any{"type": "string", "enum": words}
}

func cloneSchema(form map[string]any) map[string]any {
	c := make(map[string]any, len(form))
	for k, v := range form {
		c[k] = v
	}
	return c
}
