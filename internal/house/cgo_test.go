package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Everything compiles without cgo. Packages whose files are the same with and without it cannot tell the difference,
// so those that differ are built, and who imports them; BERTH_LONG=1 builds them all.
func TestEverythingCompilesWithoutCgo(t *testing.T) {
	t.Parallel()
	with, without := list(t, "1", "./..."), list(t, "0", "./...")
	if len(with) != len(without) {
		t.Fatalf("%d packages with cgo, %d without", len(with), len(without))
	}
	differ := map[string]bool{}
	for i, p := range with {
		files := slices.Sorted(slices.Values(append(slices.Clone(p.GoFiles), p.CgoFiles...)))
		if !slices.Equal(files, slices.Sorted(slices.Values(without[i].GoFiles))) {
			differ[p.ImportPath] = true
		}
	}
	if len(differ) == 0 {
		t.Fatal("no package uses cgo: then this test looks at the wrong thing")
	}
	var targets []string
	for _, p := range without {
		uses := slices.ContainsFunc(p.Imports, func(path string) bool { return differ[path] })
		if os.Getenv("BERTH_LONG") != "" || differ[p.ImportPath] || uses {
			targets = append(targets, p.ImportPath)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", os.DevNull}, targets...)...)
	if len(targets) > 1 {
		cmd = exec.CommandContext(t.Context(), "go", append([]string{"build"}, targets...)...) // builds, keeps nothing
	}
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("CGO_ENABLED=0 go build %v: %v\n%s", targets, err, out)
	}
}

// The mains are thin: what a command does is a value in internal/cli, so that a test can run it.
func TestMainsAreThin(t *testing.T) {
	t.Parallel()
	mains, err := filepath.Glob(root + "/cmd/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("%d mains, %v", len(mains), err)
	}
	for _, file := range mains {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := lines(data); n > 40 {
			t.Errorf("%s has %d lines, at most 40 are a thin main", file, n)
		}
	}
}
