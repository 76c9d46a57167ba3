package estimator

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files and the tables in docs/estimator.md")

const (
	docPath  = "../docs/estimator.md"
	docBegin = "<!-- generated: go test ./estimator -run TestDocumentedFigures -update -->\n"
	docEnd   = "<!-- end of the generated part -->\n"
)

// summary is one line per figure.
func summary(t *testing.T) string {
	var b strings.Builder
	line := func(name string, figs []figure, how string, value, limit float64) {
		counted := 0
		for _, f := range figs {
			if !f.left {
				counted++
			}
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %s | %+.1f %% | %g %% |\n", name, counted, len(figs), how, 100*value, limit)
	}
	b.WriteString("| figure | rows that count | | measured | limit |\n|---|---|---|---|---|\n")
	w := weightFigures(t)
	line("weights per GPU, engine logs", w, "median error", quantile(w, 0.5, absolute), 2)
	line("", w, "90th percentile", quantile(w, 0.9, absolute), 5)
	kv := cacheFigures(t)
	line("KV bytes per token, engine logs", kv, "worst error", quantile(kv, 1, absolute), 1)
	total := totalFigures(t)
	line("total need without the cache, engine logs", total, "lowest", least(total), -3)
	line("", total, "median above", quantile(total, 0.5, signed), 25)
	plain := plainFigures(t)
	line("plain transformers and litgpt runs", plain, "median error", quantile(plain, 0.5, absolute), 20)
	trained := trainingFigures(t)
	line("training runs", trained, "median error", quantile(trained, 0.5, absolute), 20)
	return b.String()
}

func least(figs []figure) float64 {
	low := math.Inf(1)
	for _, f := range figs {
		if !f.left {
			low = min(low, f.error())
		}
	}
	return low
}

// TestDocumentedFigures prints the tables and keeps the user's page true.
func TestDocumentedFigures(t *testing.T) {
	text := strings.Join([]string{
		summary(t), markdown("Weights per GPU", "GiB", weightFigures(t)), markdown("KV bytes per token and GPU", "B", cacheFigures(t)),
		markdown("Total need without the cache", "GiB", totalFigures(t)), markdown("Training", "GiB", trainingFigures(t)),
		"<details><summary>All plain runs</summary>\n\n" + markdown("Plain transformers and litgpt runs", "GiB", plainFigures(t)) + "\n</details>\n",
	}, "\n")
	t.Log("\n" + text)
	doc, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(doc), docBegin)
	_, tail, ended := strings.Cut(rest, docEnd)
	if !ok || !ended {
		t.Fatalf("%s has lost its markers", docPath)
	}
	want := head + docBegin + "\n" + text + "\n" + docEnd + tail
	if want == string(doc) {
		return
	}
	if !*update {
		t.Fatalf("%s does not show today's figures: run this test with -update", docPath)
	}
	if err := os.WriteFile(docPath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
