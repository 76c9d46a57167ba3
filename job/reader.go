package job

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxDepth and maxNodes bound what one spec may nest and, aliases included, hold: eight anchors can stand for a
// billion nodes.
const (
	maxDepth = 64
	maxNodes = 200_000
)

// reader fills Go values from nodes, by the JSON names of the fields, and remembers where each came from.
type reader struct {
	problems problems
	places   map[string]*yaml.Node // path -> where to point at
	nodes    int
	depth    int
	full     bool // a bound was hit: said once
	aliases  []*yaml.Node
}

func (r *reader) at(n *yaml.Node, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// place is the node of a path, or of the nearest thing around it.
func (r *reader) place(path string) *yaml.Node {
	for {
		if n := r.places[path]; n != nil {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

func (r *reader) readSpec(n *yaml.Node, s *Spec) {
	if resolved := r.enter(n, ""); resolved == nil {
		return
	} else if resolved.Kind != yaml.MappingNode {
		r.at(n, "", "want the fields of a job, such as command: […], not %s", kindName(resolved))
		return
	}
	r.read(n, reflect.ValueOf(s).Elem(), "")
}

// enter follows aliases to a node, within the bounds; nil when it must not be read.
func (r *reader) enter(n *yaml.Node, path string) *yaml.Node {
	r.nodes++
	if r.full {
		return nil
	}
	if r.nodes > maxNodes {
		r.full = true
		r.at(n, path, "holds more than %d values, aliases included", maxNodes)
		return nil
	}
	if r.depth > maxDepth {
		r.full = true
		r.at(n, path, "is nested more than %d deep", maxDepth)
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// read fills v from n.
func (r *reader) read(n *yaml.Node, v reflect.Value, path string) {
	r.places[path] = n
	target := r.enter(n, path)
	if target == nil {
		return
	}
	if n.Kind == yaml.AliasNode {
		for _, open := range r.aliases {
			if open == target {
				r.full = true
				r.at(n, path, "the anchor &%s contains itself", n.Value)
				return
			}
		}
	}
	r.aliases = append(r.aliases, target)
	r.depth++
	r.readNode(target, v, path)
	r.depth--
	r.aliases = r.aliases[:len(r.aliases)-1]
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

func (r *reader) readNode(n *yaml.Node, v reflect.Value, path string) {
	null := n.Kind == yaml.ScalarNode && n.Tag == "!!null"
	switch {
	case v.Type() == reflect.TypeFor[Command]():
		r.readCommand(n, v, path)
	case v.Kind() == reflect.Pointer && null:
		v.SetZero()
	case v.Type() == reflect.TypeFor[*time.Time]():
		r.readTime(n, v, path)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.readNode(n, v.Elem(), path)
	case v.Kind() == reflect.Interface:
		if value := r.plain(n, path); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	case null:
		v.SetZero() // `labels:` with nothing after it
	case reflect.PointerTo(v.Type()).Implements(textType):
		if text, ok := r.scalar(n, path, "text or a number"); ok {
			r.note(n, path, v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)))
		}
	default:
		r.readKind(n, v, path)
	}
}

func (r *reader) readKind(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		r.readStruct(n, v, path)
	case reflect.Map:
		r.readMap(n, v, path)
	case reflect.Slice:
		r.readSlice(n, v, path)
	case reflect.String:
		if text, ok := r.scalar(n, path, "text"); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		if b, err := strconv.ParseBool(n.Value); err == nil && n.Kind == yaml.ScalarNode {
			v.SetBool(b)
			return
		}
		r.at(n, path, "want true or false, not %s", describe(n))
	case reflect.Int:
		if i, err := strconv.Atoi(n.Value); err == nil && n.Kind == yaml.ScalarNode {
			v.SetInt(int64(i))
			return
		}
		r.at(n, path, "want a whole number, not %s", describe(n))
	case reflect.Float64:
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && n.Kind == yaml.ScalarNode && !math.IsInf(f, 0) && !math.IsNaN(f) {
			v.SetFloat(f)
			return
		}
		r.at(n, path, "want a number, not %s", describe(n))
	default:
		panic("job: a Spec has a field of kind " + v.Kind().String())
	}
}

func (r *reader) note(n *yaml.Node, path string, err error) {
	if err != nil {
		r.at(n, path, "%s", err)
	}
}

func (r *reader) readSlice(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = ": write [" + n.Value + "]"
		}
		r.at(n, path, "want a list, not %s%s", describe(n), hint)
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		r.read(item, list.Index(i), indexed(path, i))
	}
	v.Set(list)
}
