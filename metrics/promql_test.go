package metrics_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// known is what was scraped: the labels of each metric, and the values of each label.
type known map[string]map[string][]string

func knownOf(scrapes ...scrape) known {
	k := known{}
	note := func(name, label, value string) {
		if k[name] == nil {
			k[name] = map[string][]string{}
		}
		// Prometheus adds these two to all it scrapes.
		k[name]["instance"], k[name]["job"] = nil, nil
		if label != "" && !slices.Contains(k[name][label], value) {
			k[name][label] = append(k[name][label], value)
		}
	}
	for _, s := range scrapes {
		for name, family := range s {
			names := []string{name}
			if len(family.GetMetric()) > 0 && family.GetMetric()[0].Histogram != nil {
				names = []string{name + "_bucket", name + "_sum", name + "_count"}
				note(name+"_bucket", "le", "+Inf")
			}
			for _, m := range family.GetMetric() {
				for _, n := range names {
					note(n, "", "")
					for _, l := range m.GetLabel() {
						note(n, l.GetName(), l.GetValue())
					}
				}
			}
		}
	}
	return k
}

// tokens of PromQL, for as far as names are to be told from the rest.
var tokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[a-zA-Z_:$][a-zA-Z0-9_:$]*|[0-9][0-9.a-z]*|=~|!~|!=|==|[^\s]`)

var listed = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}

var words = append([]string{"and", "or", "unless", "bool", "offset"}, listed...)

// problems are the metrics, labels and values of a query that were not scraped.
func (k known) problems(q query) (all []string) {
	p := parser{known: k, tokens: tokens.FindAllString(q.expr, -1)}
	p.run()
	for _, l := range q.says {
		if !slices.Contains(p.given, l) {
			p.wrong("its text mentions the label %s, which it does not give", l)
		}
	}
	return p.problems
}

type parser struct {
	known    known
	tokens   []string
	at       int
	metrics  []string
	given    []string // the labels of by (...)
	grouped  []string // all labels in lists
	problems []string
}

func (p *parser) wrong(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func (p *parser) next() string {
	if p.at >= len(p.tokens) {
		return ""
	}
	p.at++
	return p.tokens[p.at-1]
}

func (p *parser) peek() string {
	if p.at >= len(p.tokens) {
		return ""
	}
	return p.tokens[p.at]
}

func isName(t string) bool { return regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(t) }

func (p *parser) run() {
	depth := 0
	for t := p.next(); t != ""; t = p.next() {
		switch {
		case t == "(":
			depth++
		case t == ")":
			depth--
		case t == "[":
			for t != "]" && t != "" {
				t = p.next()
			}
		case slices.Contains(listed, t):
			p.list(t)
		case slices.Contains(words, t), isName(t) && (p.peek() == "(" || slices.Contains(listed, p.peek())): // a function
		case isName(t):
			p.metric(t)
		}
	}
	if depth != 0 {
		p.wrong("a bracket is missing")
	}
	if len(p.metrics) == 0 {
		p.wrong("it asks for no metric")
	}
	for _, l := range p.grouped {
		if !slices.ContainsFunc(p.metrics, func(m string) bool { _, has := p.known[m][l]; return has }) {
			p.wrong("no metric of it has the label %s", l)
		}
	}
}

func (p *parser) list(word string) {
	if p.next() != "(" {
		p.wrong("%s without a list", word)
	}
	for t := p.next(); t != ")" && t != ""; t = p.next() {
		if t == "," {
			continue
		}
		p.grouped = append(p.grouped, t)
		if word == "by" {
			p.given = append(p.given, t)
		}
	}
}

func (p *parser) metric(name string) {
	p.metrics = append(p.metrics, name)
	labels, scraped := p.known[name]
	if !scraped {
		p.wrong("nobody shows the metric %s", name)
	}
	if p.peek() != "{" {
		return
	}
	p.next()
	for t := p.next(); t != "}" && t != ""; t = p.next() {
		if t == "," {
			continue
		}
		p.match(name, labels, t)
	}
}

// match is one label="value".
func (p *parser) match(name string, labels map[string][]string, label string) {
	operator, text := p.next(), p.next()
	values, has := labels[label]
	if !has {
		p.wrong("%s has no label %s", name, label)
		return
	}
	text = strings.Trim(text, `"'`)
	if strings.Contains(text, "$") || !slices.Contains([]string{"=", "=~", "!=", "!~"}, operator) {
		return
	}
	for _, v := range strings.Split(text, "|") {
		if !slices.Contains(values, v) && !slices.Contains(possible[label], v) {
			p.wrong("%s has %s %v, not %q", name, label, values, v)
		}
	}
}

// possible are values that a label may have, and that a test without failing machines does not see.
var possible = map[string][]string{
	"outcome": {"succeeded", "failed", "machine_error", "gpu_fault", "machine_lost"},
	"state":   {"dead"},
	"band":    {"high", "normal", "low"},
}
