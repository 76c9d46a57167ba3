package shim

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

const (
	madvDontneed   = 4
	madvNohugepage = 15
)

// slim gives back the pages of the binary that only starting up needed. The kernel maps a large binary in large
// pieces; a shim that waits uses a few pages of it. They come back by themselves when touched.
func slim() {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	var from, to uintptr
	for line := range bytes.Lines(maps) {
		switch {
		case bytes.HasPrefix(line, []byte("Anonymous:")):
			// Only pages that are still the file's: what the dynamic loader has written into its read-only tables
			// exists nowhere else.
			if from != to && bytes.Contains(line, []byte(" 0 kB")) {
				drop(from, to)
			}
		case line[0] >= '0' && line[0] <= '9' || line[0] >= 'a' && line[0] <= 'f':
			from, to = fileMapping(line)
		}
	}
}

// fileMapping reads "00400000-01234000 r-xp 00000000 fe:00 1234 /path"; both are 0 when it can be written to or has no
// file.
func fileMapping(line []byte) (from, to uintptr) {
	span, rest, _ := bytes.Cut(line, []byte{' '})
	if len(rest) < 4 || rest[1] == 'w' || !bytes.Contains(rest, []byte{'/'}) {
		return 0, 0
	}
	lo, hi, _ := bytes.Cut(span, []byte{'-'})
	a, err1 := strconv.ParseUint(string(lo), 16, 64)
	b, err2 := strconv.ParseUint(string(hi), 16, 64)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return uintptr(a), uintptr(b)
}

// drop is advice: a kernel that does not take it costs memory, nothing else.
func drop(from, to uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, madvNohugepage)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, madvDontneed)
}
