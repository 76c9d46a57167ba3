package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// written are the types whose JSON is not what their Go says.
var written = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage]():     {Description: "any JSON"},
	reflect.TypeFor[time.Time]():           {Type: "string", Format: "date-time"},
	reflect.TypeFor[map[string][]string](): {Types: []string{"null", "object"}, Description: "null: not known yet"},
	reflect.TypeFor[job.Spec]():            {Type: "object", Description: "a job's spec; values of variables that sound like secrets are hidden"},
	reflect.TypeFor[job.Duration]():        {Types: []string{"string", "number"}, Description: "a time such as 1h30m, or seconds"},
	reflect.TypeFor[telemetry.Points](): {Type: "array", Description: "a value for each step; null where nothing was measured",
		Items: &jsonschema.Schema{Types: []string{"null", "number"}}},
}

// schemaOf is what an answer looks like; nil where another package answers for it.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	if t == nil {
		return &jsonschema.Schema{Type: "object"}, nil
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: written})
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	return s, nil
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

type object = map[string]any

// describe says what the API is in OpenAPI 3.1, made of the routes and the types of their answers.
func describe(explained reflect.Type) ([]byte, error) {
	paths := map[string]object{}
	for _, r := range api {
		method, path, _ := strings.Cut(r.pattern, " ")
		answer := r.answer
		if strings.HasSuffix(path, "/explain") {
			answer = explained // only the commands know it
		}
		schema, err := schemaOf(answer)
		if err != nil {
			return nil, err
		}
		media := "application/json"
		if r.stream != nil && r.answer != nil {
			media = "text/event-stream"
		}
		op := object{"summary": r.does, "responses": object{
			"200":     object{"description": "done", "content": object{media: object{"schema": schema}}},
			"default": object{"description": "refused, and why", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Refusal"}}}},
		}}
		var params []object
		for _, m := range inPath.FindAllStringSubmatch(path, -1) {
			params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		for _, q := range r.query {
			name, means, _ := strings.Cut(q, ": ")
			params = append(params, object{"name": name, "in": "query", "description": means, "schema": object{"type": "string"}})
		}
		if method == http.MethodPost {
			params = append(params, object{"name": "X-Berth", "in": "header", "required": true, "description": "any text: a form of another site cannot send it", "schema": object{"type": "string"}})
			body, err := schemaOf(kind[order]())
			if err != nil {
				return nil, err
			}
			body.Required = nil
			op["requestBody"] = object{"content": object{"application/json": object{"schema": body}}}
		}
		if params != nil {
			op["parameters"] = params
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(method)] = op
	}
	refusal, err := schemaOf(kind[refusalAnswer]())
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info":    object{"title": "Berth's dashboard", "version": "1", "description": "Under the pages of the dashboard. Fields may be added, and keep their meaning; `version` counts otherwise."},
		"paths":   paths,
		"components": object{
			"schemas":         object{"Refusal": refusal},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "the token of the address that berth dashboard prints"}},
		},
		"security": []object{{"token": []string{}}},
	})
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	body, err := s.document()
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a browser that went away
}
