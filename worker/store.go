package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrStoreInUse means another worker holds the store folder.
var ErrStoreInUse = errors.New("another worker uses this store")

// Store is the folder in which a worker's runs live across its restarts:
//
//	lock            held (flock) as long as the worker lives
//	runs/<id>/      one folder a run, the runner's; the worker's own words about it are its Note
//	checkpoints/    what jobs keep between their attempts
type Store struct {
	dir  string
	lock *os.File
}

// OpenStore takes the folder, making it when it is new. ErrStoreInUse when another worker has it.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store folder %s: %w (choose another with --store)", dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store folder %s: %w (choose another with --store)", dir, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("store folder %s: %w; give the second one a folder of its own with --store", dir, ErrStoreInUse)
	}
	return &Store{dir: dir, lock: lock}, nil
}

// Dir is the folder, as an absolute path.
func (s *Store) Dir() string { return s.dir }

// Close gives the folder back.
func (s *Store) Close() error { return s.lock.Close() }

// CheckpointDir is where a job ("1842" or "1842.17") keeps what its next attempt needs. It is made when it is missing.
func (s *Store) CheckpointDir(ref string) (string, error) {
	dir := filepath.Join(s.dir, "checkpoints", ref)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("checkpoint folder: %w", err)
	}
	return dir, nil
}

// DropCheckpoint removes a job's checkpoint folder once the job is over.
func (s *Store) DropCheckpoint(ref string) error {
	return os.RemoveAll(filepath.Join(s.dir, "checkpoints", ref))
}
