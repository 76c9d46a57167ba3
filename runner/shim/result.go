package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/berthq/berth/runner/redact"
)

// ReadResult reads the job's result file; nil when there is none. The job may have put anything there: a FIFO must not
// hold the reader, a link must not lead it elsewhere.
func ReadResult(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("BERTH_RESULT_FILE was not read: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("BERTH_RESULT_FILE is not a plain file: left out of the result")
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return nil, errors.New("BERTH_RESULT_FILE has another name too (a hard link): left out of the result")
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxResult+1))
	if err != nil {
		return nil, fmt.Errorf("BERTH_RESULT_FILE was not read: %w", err)
	}
	b = bytes.TrimSpace(b)
	switch {
	case len(b) > MaxResult:
		return nil, fmt.Errorf("BERTH_RESULT_FILE holds more than %d KiB: left out of the result", MaxResult>>10)
	case len(b) == 0:
		return nil, nil
	case !json.Valid(b):
		return nil, errors.New("BERTH_RESULT_FILE does not hold valid JSON: left out of the result")
	}
	return b, nil
}

// cleanResult leaves a result without the values of secrets beside the job's own: the worker reads that one.
func (s *supervisor) cleanResult() {
	if len(s.order.Secrets) == 0 {
		return
	}
	b, err := ReadResult(ResultFile("."))
	if err != nil {
		s.warn(err.Error())
	}
	if b != nil {
		if b, err = cleanJSON(b, s.order.Secrets); err != nil {
			s.warn("BERTH_RESULT_FILE was left out of the result: " + err.Error())
		}
	}
	if err := os.WriteFile(CleanResultFile("."), b, 0o600); err != nil {
		s.warn("BERTH_RESULT_FILE was left out of the result: " + err.Error())
	}
}

// cleanJSON takes the values out of a JSON text, however its strings are escaped.
func cleanJSON(b []byte, secrets []string) ([]byte, error) {
	in := json.NewDecoder(bytes.NewReader(b))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(cleanValue(v, secrets))
}

func cleanValue(v any, secrets []string) any {
	switch x := v.(type) {
	case string:
		return redact.Text(x, secrets)
	case json.Number: // a secret may be a number
		if clean := redact.Text(x.String(), secrets); clean != x.String() {
			return clean
		}
	case []any:
		for i := range x {
			x[i] = cleanValue(x[i], secrets)
		}
	case map[string]any:
		clean := make(map[string]any, len(x))
		for key, value := range x {
			clean[redact.Text(key, secrets)] = cleanValue(value, secrets)
		}
		return clean
	}
	return v
}
