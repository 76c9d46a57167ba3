package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// MaxFileBytes bounds a file of specs: sixteen of the largest.
const MaxFileBytes = 16 * MaxSpecBytes

// enoughProblems is where reading on would help nobody.
const enoughProblems = 50 * maxProblems

// ParseSpecs reads job specs from YAML or JSON: one a document, or a list of them in one. file is the name for
// messages. What is wrong is reported all together, each as "file:line:column: message"; see Problems.
func ParseSpecs(data []byte, file string) ([]Spec, error) {
	specs, ps := parseSpecs(data)
	for i := range ps {
		ps[i].File = file
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	if err := ps.err(); err != nil {
		return nil, err
	}
	return specs, nil
}

func parseSpecs(data []byte) ([]Spec, problems) {
	if len(data) > MaxFileBytes {
		return nil, problems{{Line: 1, Column: 1, Message: fmt.Sprintf(
			"the file has %d KiB, at most %d KiB are read: a spec names data, it does not hold it", len(data)>>10, MaxFileBytes>>10)}}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	documents, ps := documentNodes(data)
	var specs []Spec
	for _, node := range documents {
		spec, more := readSpec(node)
		ps = append(ps, more...)
		specs = append(specs, spec)
		if len(ps) > enoughProblems {
			break
		}
	}
	if len(documents) == 0 && len(ps) == 0 {
		ps = problems{{Line: 1, Column: 1, Message: "holds no job: want at least command: […]"}}
	}
	return specs, ps
}

// readSpec turns one node into a checked spec, every problem with its place.
func readSpec(node *yaml.Node) (Spec, problems) {
	r := reader{places: map[string]*yaml.Node{"": node}}
	var s Spec
	r.readSpec(node, &s)
	if len(r.problems) > 0 {
		return Spec{}, r.problems // checking half a spec would only add noise
	}
	ps := check(s)
	for i, p := range ps {
		at := r.place(p.Path)
		ps[i].Line, ps[i].Column = at.Line, at.Column
	}
	return s, ps
}

// documentNodes splits data into the nodes that hold one spec each. JSON is read as JSON: YAML refuses some of it.
func documentNodes(data []byte) ([]*yaml.Node, problems) {
	if nodes, ok := jsonNodes(data); ok {
		return flatten(nodes), nil
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, problems{{Line: 1, Column: 1, Message: "is binary: want YAML or JSON"}}
	}
	var nodes []*yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return flatten(nodes), nil
		}
		if err != nil {
			return nil, problems{yamlProblem(err, data)}
		}
		if root := doc.Content; len(root) == 1 && root[0].Tag != "!!null" {
			nodes = append(nodes, root[0])
		}
	}
}

// flatten replaces a list of specs by its members.
func flatten(nodes []*yaml.Node) []*yaml.Node {
	var flat []*yaml.Node
	for _, n := range nodes {
		if n.Kind == yaml.SequenceNode {
			flat = append(flat, n.Content...)
			continue
		}
		flat = append(flat, n)
	}
	return flat
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s+)?(?:line (\d+): )?`)

// yamlParserError are the messages of the parser proper; they count lines from 0, all others from 1.
var yamlParserError = regexp.MustCompile(`^did not find expected (node content|key|'-' indicator|',' or|<)`)

// yamlProblem takes the line out of the parser's message; it knows no column.
func yamlProblem(err error, data []byte) Problem {
	text := err.Error()
	p := Problem{Line: 1, Column: 1}
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		if m[2] >= 0 {
			p.Line, _ = strconv.Atoi(text[m[2]:m[3]])
		}
		text = text[m[1]:]
		if m[2] >= 0 && yamlParserError.MatchString(text) {
			p.Line++
		}
	}
	p.Message = "not YAML: " + text
	if start := bytes.TrimSpace(data); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		p.Message = "neither JSON nor YAML: " + text
	}
	if lines := bytes.Split(data, []byte("\n")); p.Line >= 1 && p.Line <= len(lines) {
		line := lines[p.Line-1]
		p.Column = 1 + len(line) - len(bytes.TrimLeft(line, " \t"))
		if bytes.HasPrefix(line, []byte("\t")) {
			p.Column, p.Message = 1, p.Message+" (YAML is indented with spaces, not tabs)"
		}
	}
	return p
}
