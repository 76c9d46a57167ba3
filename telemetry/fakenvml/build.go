package fakenvml

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"testing"
)

//go:embed testdata/fake_nvml.c
var source []byte

// Build is the path of the library, without the functions named in omit: an older driver's library lacks some. It is
// compiled once for each set of them; a machine without gcc fails the test and says so.
func Build(t testing.TB, omit ...string) string {
	t.Helper()
	omit = append([]string(nil), omit...)
	sort.Strings(omit)
	args := []string{"-O1", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"}
	sum := sha256.New()
	sum.Write(source)
	for _, name := range omit {
		args = append(args, "-DOMIT_"+name)
		sum.Write([]byte("\x00" + name))
	}
	dir := cacheDir(t)
	path := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil))[:24]+".so")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	work := t.TempDir()
	c, so := filepath.Join(work, "fake_nvml.c"), filepath.Join(work, "lib.so")
	write(t, c, string(source))
	out, err := exec.Command("gcc", append(args, "-o", so, c, "-ldl")...).CombinedOutput()
	if err != nil {
		t.Fatalf("build the fake NVML library (these tests need gcc): %v\n%s", err, out)
	}
	lib, err := os.ReadFile(so)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(lib)) // by rename: several test programs may build at once
	return path
}

func cacheDir(t testing.TB) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "berth-fakenvml")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write replaces a file in one step, so that a reader sees the old or the new content and nothing between.
func write(t testing.TB, path, content string) {
	t.Helper()
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tmp.WriteString(content)
	if err == nil {
		err = tmp.Chmod(0o755)
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		t.Fatal(err)
	}
}
