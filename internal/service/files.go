package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is one file of an installation.
type File struct {
	Path string
	Text string
	Mode os.FileMode
}

// Change is what writing a file did.
type Change string

// The changes.
const (
	New     Change = "written"
	Same    Change = "as it was"
	Changed Change = "changed, the old one kept as"
)

// Old is where Write keeps what was there before.
func (f File) Old() string { return f.Path + ".old" }

// Write puts the file in its place, whole or not at all. One that was there and said something else is kept as Old.
func (f File) Write() (Change, error) {
	before, err := os.ReadFile(f.Path)
	switch {
	case err == nil && string(before) == f.Text:
		return Same, os.Chmod(f.Path, f.Mode)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read what is there: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil { //nolint:gosec // folders of units are open to all
		return "", fmt.Errorf("make its folder: %w", err)
	}
	change := New
	if err == nil {
		change = Changed
		if err := os.Rename(f.Path, f.Old()); err != nil {
			return "", fmt.Errorf("keep what was there: %w", err)
		}
	}
	if err := f.put(); err != nil {
		if change == Changed {
			err = errors.Join(err, os.Rename(f.Old(), f.Path))
		}
		return "", err
	}
	return change, nil
}

// put writes beside the place and moves it there.
func (f File) put() error {
	tmp, err := os.CreateTemp(filepath.Dir(f.Path), ".berth-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	_, err = tmp.WriteString(f.Text)
	if err = errors.Join(err, tmp.Chmod(f.Mode), tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), f.Path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// ErrForeign is a unit that Berth did not write.
var ErrForeign = errors.New("somebody else wrote it")

// Ours reports with nil that Berth wrote the unit. One that is not there is fs.ErrNotExist.
func Ours(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(text), Mark) {
		return fmt.Errorf("%s: %w", path, ErrForeign)
	}
	return nil
}

// Remove takes a unit away if it is Ours.
func Remove(path string) error {
	if err := Ours(path); err != nil {
		return err
	}
	return os.Remove(path)
}
