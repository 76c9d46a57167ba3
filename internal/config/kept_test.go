package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Many dashboards that start at once agree on one token, which only its owner can read; a restart has it again, and a
// file that others can read, or that holds something else, is refused with what to do.
func TestKeptToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "berth", "dashboard.token")
	got := make([]string, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			token, err := KeptToken(path, func() string { return fmt.Sprintf("a-token-of-start-%d", i) })
			if err != nil {
				t.Error(err)
			}
			got[i] = token
		})
	}
	wg.Wait()
	again, err := KeptToken(path, func() string { return "a-token-of-a-restart" })
	if err != nil || !strings.HasPrefix(again, "a-token-of-start-") {
		t.Errorf("after a restart: %q, %v", again, err)
	}
	for i, token := range got {
		if token != again {
			t.Errorf("start %d got %q, the others %q", i, token, again)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v, want 0600", info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("files are left: %v", left)
	}
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // what is tested
		t.Fatal(err)
	}
	if _, err := KeptToken(path, nil); err == nil || !strings.Contains(err.Error(), "others can read") {
		t.Errorf("a file that others can read: %v", err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil || os.Chmod(path, 0o600) != nil {
		t.Fatal(err)
	}
	if _, err := KeptToken(path, nil); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a file without a token: %v", err)
	}
}
