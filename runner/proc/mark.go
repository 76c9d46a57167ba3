package proc

import (
	"bytes"
	"os"
	"strconv"
)

// Marked reports whether the process was started with that "KEY=value" in its environment. It reads what the process
// was given at its exec, so a program cannot lose the mark by changing its environment later; it can only lose it by
// starting a child without it.
func Marked(pid int, mark string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	want := []byte(mark)
	for len(b) > 0 {
		entry, rest, _ := bytes.Cut(b, []byte{0})
		if bytes.Equal(entry, want) {
			return true
		}
		b = rest
	}
	return false
}

// Catches reports whether the process has a handler for the signal, so that sending it asks instead of killing.
func Catches(pid int, signal int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, found := bytes.Cut(b, []byte("\nSigCgt:"))
	if !found {
		return false
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && signal > 0 && signal <= 64 && mask&(1<<(signal-1)) != 0
}
