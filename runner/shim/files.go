package shim

import (
	"encoding/json"
	"os"
	"syscall"
)

// reserve takes disk blocks for exit.json beforehand, so that a full disk cannot eat how the run ended.
func reserve(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/"+ExitFile+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_ = syscall.Fallocate(int(f.Fd()), 0, 0, 16<<10) // not every file system can; then it is a hope
	return f, nil
}

// commit writes v into the reserved file and gives it its name.
func commit(f *os.File, path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(b))); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeJSON replaces a file as a whole.
func writeJSON(path string, v any) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return commit(f, path, v)
}

// writeInJob makes a file in the folder that belongs to the job, which may have put a link there to somebody else's.
func writeInJob(path string, b []byte) error {
	if err := syscall.Unlink(path); err != nil && err != syscall.ENOENT {
		return &os.PathError{Op: "replace", Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
