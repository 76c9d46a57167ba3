package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

const checkpoints = "checkpoints"

// OpenStore takes the folder, making it when it is new. ErrStoreInUse when another worker has it.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, checkpoints), 0o700); err != nil {
		return nil, fmt.Errorf("store folder %s: %w (choose another with --store)", dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store folder %s: %w (choose another with --store)", dir, err)
	}
	if err := holdLock(lock); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("store folder %s: %w; give the second one a folder of its own with --store", dir, ErrStoreInUse)
	}
	return &Store{dir: dir, lock: lock}, nil
}

// lingers is how long the lock of a worker that was killed may still be held: a process that it was just starting has a
// copy until its exec.
const lingers = time.Second

// holdLock takes the lock, for as long as the file is open.
func holdLock(lock *os.File) error {
	for patience := time.Now().Add(lingers); ; {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || time.Now().After(patience) {
			return err
		}
		time.Sleep(10 * time.Millisecond) // the kernel tells nobody when a lock becomes free, but those who wait without end
	}
}

// Dir is the folder, as an absolute path.
func (s *Store) Dir() string { return s.dir }

// Close gives the folder back.
func (s *Store) Close() error { return s.lock.Close() }

// CheckpointDir is where a job ("1842" or "1842.17") keeps what its next attempt needs.
func (s *Store) CheckpointDir(ref string) string { return filepath.Join(s.dir, checkpoints, ref) }

// DropCheckpoint removes a job's checkpoint folder once the job is over.
func (s *Store) DropCheckpoint(ref string) error {
	return os.RemoveAll(s.CheckpointDir(ref))
}
