package job

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pair is a key of a mapping and what stands behind it.
type pair struct{ key, value *yaml.Node }

// pairs lists a mapping in order, merges (`<<: *base`) filled in where a key is not given. A key written twice is a
// problem: YAML and JSON parsers disagree on which one counts.
func (r *reader) pairs(n *yaml.Node, path string) []pair {
	if n.Kind != yaml.MappingNode {
		r.at(n, path, "want a map, not %s", describe(n))
		return nil
	}
	var own []pair
	var merges []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind == yaml.ScalarNode && key.Tag == "!!merge":
			merges = append(merges, value)
		case key.Kind != yaml.ScalarNode:
			r.at(key, path, "a key must be text, not %s", kindName(key))
		case seen[key.Value]:
			r.at(key, join(path, key.Value), "is given twice")
		default:
			seen[key.Value] = true
			own = append(own, pair{key, value})
		}
	}
	for _, m := range merges {
		own = r.merge(own, seen, m, path)
	}
	return own
}

// merge adds the pairs of a merged mapping, or of each in a list, that are not there yet.
func (r *reader) merge(own []pair, seen map[string]bool, from *yaml.Node, path string) []pair {
	target := r.enter(from, path)
	if target == nil {
		return own
	}
	if r.depth++; target.Kind == yaml.SequenceNode {
		for _, m := range target.Content {
			own = r.merge(own, seen, m, path)
		}
		r.depth--
		return own
	}
	for _, p := range r.pairs(target, path) {
		if !seen[p.key.Value] {
			seen[p.key.Value] = true
			own = append(own, p)
		}
	}
	r.depth--
	return own
}

func (r *reader) readMap(n *yaml.Node, v reflect.Value, path string) {
	m := reflect.MakeMap(v.Type())
	for _, p := range r.pairs(n, path) {
		item := reflect.New(v.Type().Elem()).Elem()
		r.read(p.value, item, join(path, p.key.Value))
		m.SetMapIndex(reflect.ValueOf(p.key.Value), item)
	}
	v.Set(m)
}

func (r *reader) readStruct(n *yaml.Node, v reflect.Value, path string) {
	fields := jsonFields(v.Type())
	for _, p := range r.pairs(n, path) {
		name := p.key.Value
		fieldPath := join(path, name)
		f, known := fields.exact(name)
		switch {
		case !known:
			r.at(p.key, path, "unknown field `%s`%s", clip(name), fieldHint(name, fields))
		case isUnbuilt(fieldPath):
			r.at(p.key, "", "%s", unbuiltMessage(fieldPath))
		default:
			r.read(p.value, v.FieldByIndex(f.index), fieldPath)
		}
	}
}

// otherNames are what neighbours call our fields.
var otherNames = map[string]string{
	"cmd": "command", "args": "command", "run": "command", "cwd": "workdir", "dir": "workdir",
	"environment": "env", "timeout": "time_limit", "time": "time_limit", "walltime": "time_limit", "mem": "memory",
	"vram": "gpu_memory", "cores": "cpus", "gres": "gpus", "requirements": "resources", "params": "parameters",
}

// fieldHint says where an unknown name may belong: to a field spelled alike here, or to one inside resources and so on.
func fieldHint(name string, here fieldSet) string {
	if other, ok := otherNames[strings.ToLower(name)]; ok {
		name = other
	}
	top := jsonFields(reflect.TypeFor[Spec]())
	for _, where := range []struct {
		prefix string
		fields fieldSet
	}{{"", here}, {"resources.", jsonFields(reflect.TypeFor[Resources]())}, {"", top}} {
		if f, ok := where.fields.exact(name); ok {
			return " (did you mean `" + where.prefix + f.name + "`?)"
		}
	}
	if hint := didYouMean(name, here.names()); hint != "" {
		return hint
	}
	if f, ok := Nearest(name, jsonFields(reflect.TypeFor[Resources]()).names()); ok {
		return " (did you mean `resources." + f + "`?)"
	}
	return ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// clip bounds a name inside an error and shows control characters escaped.
func clip(name string) string {
	q := quoted(name)
	return q[1 : len(q)-1]
}
