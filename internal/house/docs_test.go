package house_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is [text](target) or ![text](target) in a page.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// code is what a page shows and does not say: fenced and inline.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// targets are the files and folders that a page links to, from the root, each with its heading.
func targets(page string, data []byte) map[string]string {
	found := map[string]string{}
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(data), ""), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, heading, _ := strings.Cut(m[1], "#")
		if file == "" {
			found[page] = heading
			continue
		}
		found[path.Join(path.Dir(page), file)] = heading
	}
	return found
}

// A link between pages leads somewhere.
func TestNoLinkIsDead(t *testing.T) {
	t.Parallel()
	checked := 0
	sources(t, func(page string, data []byte) {
		if filepath.Ext(page) != ".md" {
			return
		}
		for target, heading := range targets(page, data) {
			checked++
			info, err := os.Stat(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s links to %s, which is not there", page, target)
				continue
			}
			if heading != "" && !info.IsDir() && !hasHeading(t, filepath.Join(root, target), heading) {
				t.Errorf("%s links to %s#%s: no such heading", page, target, heading)
			}
		}
	})
	if checked < 40 {
		t.Errorf("only %d links were found: does the expression still know them?", checked)
	}
}

// hasHeading looks for the heading whose anchor is that, as GitHub makes them.
func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return false
	}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(string(data)) {
		title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !found || !strings.HasPrefix(line, "#") {
			continue
		}
		title = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		if strings.ReplaceAll(title, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// Every page of docs can be found from its index, and the index from the front page.
func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	read := func(page string) map[string]string {
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		return targets(page, data)
	}
	linked := read(index)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		page := "docs/" + filepath.Base(p)
		if _, found := linked[page]; !found && page != index {
			t.Errorf("%s is not in %s", page, index)
		}
	}
	front := read("README.md")
	if _, found := front[index]; !found {
		t.Errorf("README.md does not lead to %s", index)
	}
}

// A decision's number is its alone: people cite it.
func TestDecisionsHaveNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "decisions", "*.md"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d decisions, %v", len(pages), err)
	}
	title := regexp.MustCompile(`^# (?:0*)(\d+)[.:] \S`)
	taken := map[string]string{}
	for _, p := range pages {
		page := filepath.Base(p)
		number, _, _ := strings.Cut(page, "-")
		if other, twice := taken[number]; twice {
			t.Errorf("%s and %s have one number", other, page)
		}
		taken[number] = page
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		m := title.FindStringSubmatch(string(data))
		if len(number) != 4 || m == nil || strings.TrimLeft(number, "0") != m[1] {
			t.Errorf("%s: the number of its name must begin its heading", page)
		}
	}
}
