package house_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func lines(data []byte) int { return bytes.Count(data, []byte("\n")) }

// sources calls visit for every file of the repository that people write, with its path from the root.
func sources(t *testing.T, visit func(path string, data []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "node_modules", "testdata", "vendor"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !slices.Contains([]string{".go", ".md", ".sh", ".py", ".js", ".conf", ".yaml", ".yml", ".c", ".h", ""}, filepath.Ext(path)) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		rel, err := filepath.Rel(root, path)
		visit(filepath.ToSlash(rel), data)
		return err
	})
	if err != nil || n < 20 {
		t.Fatalf("%d files, %v", n, err)
	}
}

// A mark for later is a promise nobody keeps: do it, or write an issue.
func TestNothingIsLeftForLater(t *testing.T) {
	t.Parallel()
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X:", "HA" + "CK:"}
	sources(t, func(path string, data []byte) {
		if bytes.IndexByte(data, 0) >= 0 {
			return // a binary without an extension
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, mark := range marks {
				if strings.Contains(line, mark) {
					t.Errorf("%s:%d: %s", path, i+1, strings.TrimSpace(line))
				}
			}
		}
	})
}

// Each package says at its top what it owns.
func TestPackagesIntroduceThemselves(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "1", "./...") {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}

// outside are the places that may look at the process they run in: commands, which hand it on, and what starts helper
// processes, which inherit it.
var outside = []string{
	"cmd/...", "internal/cli", "examples/...", "bench/...", "docs/...", "internal/house", "metrics/promcheck",
	"internal/release/pages", // a command of the build
	"runner/shim",            // is a process of its own
	"runner/fakerun",         // likewise, in tests
	"runner/container/...",   // its helper is one, too; and for tests
	"telemetry/nvml",         // its child reads the GPUs, and inherits the environment
	"telemetry/nvml/probe",   // is that child
	"telemetry/smi",          // starts nvidia-smi
	"telemetry/frameworks",   // starts Python
	"telemetry/fakenvml",     // for tests
}

// behindTheBack are the calls by which a package would know more than it was given.
var behindTheBack = map[string][]string{
	"os":   {"Getenv", "LookupEnv", "Environ", "Setenv", "ExpandEnv", "Exit"},
	"slog": {"SetDefault", "Default", "Debug", "Info", "Warn", "Error"},
	"log":  {"Print", "Printf", "Println", "Fatal", "Fatalf"},
}

// No package reads the environment, a global logger, or ends the process behind its caller's back.
func TestNobodyActsBehindTheCallersBack(t *testing.T) {
	t.Parallel()
	sources(t, func(path string, data []byte) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			slices.ContainsFunc(outside, func(place string) bool { return matches(dir, place) }) {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, data, 0)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && slices.Contains(behindTheBack[x.Name], sel.Sel.Name) {
				t.Errorf("%s: %s.%s: hand it in", fset.Position(sel.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
	})
}
