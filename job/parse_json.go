package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// jsonNodes reads data as a stream of JSON values into the nodes a YAML parser would give, with their places. ok is
// false when it is not JSON, or is too deep to be worth it: then the YAML parser has the word, and the blame.
func jsonNodes(data []byte) (nodes []*yaml.Node, ok bool) {
	start := bytes.TrimLeft(data, " \t\r\n")
	if len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return nil, false
	}
	p := jsonParser{data: data, d: json.NewDecoder(bytes.NewReader(data)), line: 1}
	p.d.UseNumber()
	for {
		token, err := p.d.Token()
		if errors.Is(err, io.EOF) {
			return nodes, len(nodes) > 0
		}
		if err != nil {
			return nil, false
		}
		node, err := p.node(token, 0)
		if err != nil {
			return nil, false
		}
		nodes = append(nodes, node)
	}
}

type jsonParser struct {
	data []byte
	d    *json.Decoder

	// Place of the last token: offsets only grow, so lines are counted once.
	offset, line, lineStart int
}

var errTooDeep = errors.New("nested too deeply")

func (p *jsonParser) node(token json.Token, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	n := &yaml.Node{}
	n.Line, n.Column = p.place()
	switch t := token.(type) {
	case json.Delim:
		return n, p.fill(n, t, depth)
	case string:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!str", t
	case json.Number:
		n.Kind, n.Value = yaml.ScalarNode, t.String()
		n.Tag = "!!int"
		if bytes.ContainsAny([]byte(t), ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!bool", "false"
		if t {
			n.Value = "true"
		}
	case nil:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!null", "null"
	}
	return n, nil
}

func (p *jsonParser) fill(n *yaml.Node, open json.Delim, depth int) error {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for {
		token, err := p.d.Token()
		if err != nil {
			return err
		}
		if t, ok := token.(json.Delim); ok && (t == '}' || t == ']') {
			p.place()
			return nil
		}
		child, err := p.node(token, depth+1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
}

// place finds where the token just read begins. The decoder knows where it ends; before it are only blanks, commas and
// colons. It must be called for every token, the closing ones too.
func (p *jsonParser) place() (line, column int) {
	end := int(p.d.InputOffset())
	start := p.offset
	for start < end && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[start]) >= 0 {
		if p.data[start] == '\n' {
			p.line, p.lineStart = p.line+1, start+1
		}
		start++
	}
	line, column = p.line, start-p.lineStart+1
	p.offset = end // a token holds no line break
	return line, column
}
