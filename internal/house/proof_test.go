package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test is named as package.TestName, a script of the command line's as package.TestScripts/name.
var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)(?:/([a-z_]+))?`")

// What docs/founding-rows.md calls a proof is there, and no row is without one.
func TestEveryFoundingRowHasItsProof(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "founding-rows.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		named := namedTest.FindAllStringSubmatch(line, -1)
		if strings.HasPrefix(line, "| R") {
			rows++
			if len(named) < 2 {
				t.Errorf("too little proof: %s", line)
			}
		}
		for _, m := range named {
			proofExists(t, m[1], m[2], m[3])
		}
	}
	if rows != 16 {
		t.Errorf("%d rows, not 16", rows)
	}
}

func proofExists(t *testing.T, dir, name, script string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range files {
		code, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(code), "\nfunc "+name+"(")
	}
	if !found {
		t.Errorf("%s has no %s", dir, name)
	}
	if script == "" {
		return
	}
	if _, err := os.Stat(filepath.Join(root, dir, "testdata", "script", script+".txt")); err != nil {
		t.Errorf("%s: no script %s: %v", dir, script, err)
	}
}
