package frameworks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// maxKept bounds the store's file: some interpreters times five frameworks.
const maxKept = 64

// kept is one complete answer.
type kept struct {
	At   time.Time `json:"at"`
	Seen Seen      `json:"seen"`
}

type keptFile struct {
	Version int             `json:"version"`
	Answers map[string]kept `json:"answers"`
}

// load finds an answer. A file that cannot be read or understood holds none: the framework is asked again.
func load(path, key string) (Seen, bool) {
	file, err := readKept(path)
	if err != nil {
		return Seen{}, false
	}
	k, ok := file.Answers[key]
	k.Seen.Cached = true
	return k.Seen, ok
}

// save keeps an answer, by a rename: a reader never sees half a file.
func save(path, key string, seen Seen, now time.Time) error {
	if path == "" {
		return nil
	}
	file, err := readKept(path)
	if err != nil {
		file = keptFile{} // what is not understood is written anew
	}
	if file.Answers == nil {
		file.Answers = map[string]kept{}
	}
	file.Version = 1
	file.Answers[key] = kept{At: now, Seen: seen}
	for len(file.Answers) > maxKept {
		delete(file.Answers, oldest(file.Answers))
	}
	data, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return err
	}
	return replace(path, data)
}

func readKept(path string) (keptFile, error) {
	var file keptFile
	if path == "" {
		return file, fs.ErrNotExist
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return file, err
	}
	if file.Version != 1 {
		return keptFile{}, fmt.Errorf("%s has version %d, this program knows 1", path, file.Version)
	}
	return file, nil
}

func oldest(answers map[string]kept) string {
	first := ""
	for key, k := range answers {
		if first == "" || k.At.Before(answers[first].At) {
			first = key
		}
	}
	return first
}

func replace(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when all went well
	if _, err := tmp.Write(data); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
