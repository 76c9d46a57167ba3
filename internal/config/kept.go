package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KeptToken is the token that the file holds, or, where there is none yet, the one that fresh makes, which the file
// holds from then on, readable by its owner alone. Of several that begin at once all get the same one.
func KeptToken(path string, fresh func() string) (string, error) {
	if kept, err := readToken(path); !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("keep a token: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // 0600
	if err != nil {
		return "", fmt.Errorf("keep a token: %w", err)
	}
	_, err = f.WriteString(fresh() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path) // fails where another was faster; its token counts
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return "", fmt.Errorf("keep a token in %s: %w", path, err)
	}
	return readToken(path)
}

func readToken(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is a token that others can read (%s): remove the file, and the next start makes a new one", path, info.Mode())
	}
	body, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	token := strings.TrimSpace(string(body))
	if len(token) < 16 || strings.ContainsAny(token, " \t\r\n;,\"\\") {
		return "", fmt.Errorf("%s does not hold a token: remove the file, and the next start makes a new one", path)
	}
	return token, nil
}
