package worker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestStoreIsTakenOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "store")
	first, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(dir); !errors.Is(err, ErrStoreInUse) {
		t.Fatalf("second open: %v, want ErrStoreInUse", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(dir)
	if err != nil {
		t.Fatalf("open after close: %v", err)
	}
	again.Close()
}

func TestCheckpointIsDropped(t *testing.T) {
	t.Parallel()
	s, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := s.CheckpointDir("12.3")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "epoch-7"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.DropCheckpoint("12.3"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("dropped, and still there: %v", err)
	}
}
