package spool

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	headPrefix = "log-"
	tailPrefix = "tail-"
)

func fileName(prefix string, base int64) string { return fmt.Sprintf("%s%020d", prefix, base) }

// segment is one file of a spool.
type segment struct {
	path string
	base int64
	tail bool
}

// segments lists the files of the spool in a run's folder, oldest first.
func segments(dir string) ([]segment, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, e := range names {
		digits, head := strings.CutPrefix(e.Name(), headPrefix)
		tail := false
		if !head {
			digits, tail = strings.CutPrefix(e.Name(), tailPrefix)
		}
		base, err := strconv.ParseInt(digits, 10, 64)
		if !head && !tail || err != nil {
			continue
		}
		all = append(all, segment{dir + "/" + e.Name(), base, tail})
	}
	slices.SortFunc(all, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	return all, nil
}

// readable lists the files a reader may look into now: the tail only once the run has ended.
func readable(dir string, ended bool) ([]segment, error) {
	all, err := segments(dir)
	if err != nil {
		return nil, fmt.Errorf("list the log spool: %w", err)
	}
	if ended {
		return all, nil
	}
	return slices.DeleteFunc(all, func(s segment) bool { return s.tail }), nil
}
