package job

import (
	"reflect"
	"strings"
	"sync"
)

// field is a struct field as JSON, and a spec file, know it.
type field struct {
	name  string
	index []int
	Type  reflect.Type
}

// fieldSet is the fields of one struct type in the order they are declared.
type fieldSet []field

var fieldSets sync.Map // reflect.Type -> fieldSet: types do not change

// jsonFields lists the fields of a struct type, those of embedded structs included.
func jsonFields(t reflect.Type) fieldSet {
	if known, ok := fieldSets.Load(t); ok {
		return known.(fieldSet)
	}
	var fs fieldSet
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fs = append(fs, field{name, f.Index, f.Type})
	}
	fieldSets.Store(t, fs)
	return fs
}

// find looks a name up as encoding/json does: by exact name, else in any case.
func (fs fieldSet) find(name string) (field, bool) {
	if f, ok := fs.exact(name); ok {
		return f, true
	}
	for _, f := range fs {
		if strings.EqualFold(f.name, name) {
			return f, true
		}
	}
	return field{}, false
}

func (fs fieldSet) exact(name string) (field, bool) {
	for _, f := range fs {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// names are the names a user may write.
func (fs fieldSet) names() []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.name
	}
	return names
}
