package spool

import (
	"fmt"
	"io"
	"os"
)

// Tail returns the last n bytes, at most, of what the run wrote to stdout and stderr, in the order it came. It finds
// its way from the end of the files, so it takes the same time after a line as after a gibibyte.
func Tail(dir string, n int) ([]byte, error) {
	all, err := segments(dir)
	if err != nil {
		return nil, fmt.Errorf("list the log spool: %w", err)
	}
	var tail []byte
	for i := len(all) - 1; i >= 0 && len(tail) < n; i-- {
		piece, err := fileTail(all[i].path, n-len(tail))
		if err != nil {
			return tail, fmt.Errorf("read the end of the log: %w", err)
		}
		tail = append(piece, tail...)
	}
	return tail, nil
}

// fileTail widens its window from the end of the file until the frames in it hold n bytes or the file begins.
func fileTail(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for window := int64(n) + readSize; ; window *= 2 {
		from := max(0, info.Size()-window)
		b := make([]byte, info.Size()-from)
		if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
			return nil, err
		}
		text := chain(b)
		if len(text) >= n {
			return text[len(text)-n:], nil
		}
		if from == 0 {
			return text, nil
		}
	}
}

// chain finds the first frame in b from which frame follows frame to the end of b, and returns their data. The last
// may be incomplete: its writer died on it.
func chain(b []byte) []byte {
	for start := range b {
		if text, ok := follow(b[start:]); ok {
			return text
		}
	}
	return nil
}

func follow(b []byte) (text []byte, ok bool) {
	for len(b) >= headerSize {
		f, n, good := header(b)
		if !good {
			return nil, false
		}
		n = min(n, len(b)-headerSize)
		if f.Stream != Notice {
			text = append(text, b[headerSize:headerSize+n]...)
		}
		b = b[headerSize+n:]
	}
	return text, true
}
