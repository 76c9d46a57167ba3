package natsembed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrStoreInUse is wrapped by Start when another server runs on the same folder.
var ErrStoreInUse = errors.New("another broker uses this store folder")

// lockStore takes the folder for this process. NATS itself does not: two servers on one folder would ruin it.
func lockStore(dir string) (io.Closer, error) {
	path := filepath.Join(dir, "broker.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsembed: store lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("natsembed: %w: %s (process %s): stop it, or choose another folder",
				ErrStoreInUse, dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("natsembed: lock %s: %w", path, err)
	}
	// The lock is what counts; the process id only makes the refusal above helpful.
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("natsembed: store lock %s: %w", path, err)
	}
	return f, nil
}

func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}
