package job

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar is the text of a scalar as written: 30, true and 1.50 are themselves.
func (r *reader) scalar(n *yaml.Node, path, want string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!binary" {
		r.at(n, path, "want %s, not %s", want, describe(n))
		return "", false
	}
	return n.Value, true
}

func (r *reader) readCommand(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		v.SetZero()
	case n.Kind == yaml.ScalarNode:
		if strings.TrimSpace(n.Value) == "" {
			r.at(n, path, "is blank")
			return
		}
		v.Set(reflect.ValueOf(ShellCommand(n.Value)))
	case n.Kind == yaml.SequenceNode:
		argv := make(Command, len(n.Content))
		for i, word := range n.Content {
			r.readWord(word, &argv[i], indexed(path, i))
		}
		v.Set(reflect.ValueOf(argv))
	default:
		r.at(n, path, "want a list of words or one line for bash, not %s", describe(n))
	}
}

func (r *reader) readWord(n *yaml.Node, word *string, path string) {
	if target := n; target.Kind == yaml.ScalarNode && target.Tag == "!!null" {
		r.at(n, path, `want text or a number, not null (write "%s" in quotes for the word)`, n.Value)
		return
	}
	r.read(n, reflect.ValueOf(word).Elem(), path)
}

func (r *reader) readTime(n *yaml.Node, v reflect.Value, path string) {
	text, ok := r.scalar(n, path, "a time")
	if !ok {
		return
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.at(n, path, "%s is not a time: want for example 2026-01-31T08:00:00+01:00", quoted(text))
		return
	}
	v.Set(reflect.ValueOf(&t))
}

// describe is a short word for a node in "want …, not …".
func describe(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!null" {
			return "nothing"
		}
		return quoted(n.Value)
	}
	return kindName(n)
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// plain is a node as JSON would hold it: for fields that take anything.
func (r *reader) plain(n *yaml.Node, path string) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		r.readMap(n, reflect.ValueOf(&m).Elem(), path)
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			r.read(item, reflect.ValueOf(&list[i]).Elem(), indexed(path, i))
		}
		return list
	}
	return r.plainScalar(n, path)
}

func (r *reader) plainScalar(n *yaml.Node, path string) any {
	var v any
	if n.Tag == "!!timestamp" || n.Tag == "!!binary" {
		return n.Value
	}
	if err := n.Decode(&v); err != nil {
		r.at(n, path, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	switch x := v.(type) {
	case int:
		return float64OrNumber(int64(x), n.Value)
	case int64:
		return float64OrNumber(x, n.Value)
	case uint64:
		return json.Number(n.Value)
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			r.at(n, path, "%s is not a number JSON can hold", n.Value)
			return nil
		}
	case time.Time:
		return n.Value
	}
	return v
}

// float64OrNumber gives numbers the form they have after a round trip through JSON.
func float64OrNumber(i int64, text string) any {
	if f := float64(i); int64(f) == i {
		return f
	}
	return json.Number(text)
}
