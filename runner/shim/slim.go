package shim

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

const (
	madvRandom     = 1
	madvDontneed   = 4
	madvNohugepage = 15

	// stripe is the largest piece of the binary that one touch may bring back.
	stripe = 256 << 10
)

// span is a piece of the address space.
type span struct{ from, to uintptr }

// binary is what of this process's mappings can be dropped, found by the first slim.
var binary []span

// Slim is slim for a process that has nothing to do but wait, as a shim has.
func Slim() { slim() }

// slim gives back the pages of the binary that only starting up needed. A shim that waits uses a few of them; they come
// back by themselves when touched.
func slim() {
	if binary == nil {
		binary = cleanMappings()
		for _, s := range binary {
			divide(s)
		}
	}
	for _, s := range binary {
		advise(s, madvDontneed)
	}
}

// divide keeps the kernel from mapping 2 MiB of the binary for each byte that is touched: it maps a large folio of the
// page cache as a whole whenever that lies in one mapping. Advice that differs from stripe to stripe divides the mapping.
func divide(s span) {
	advise(s, madvNohugepage)
	for at := s.from; at < s.to; at += 2 * stripe {
		advise(span{at, min(at+stripe, s.to)}, madvRandom)
	}
}

// cleanMappings lists the read-only mappings of files that hold nothing but the file's own pages: what the dynamic
// loader has written into its read-only tables exists nowhere else.
func cleanMappings() []span {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	var found []span
	var s span
	for line := range bytes.Lines(maps) {
		switch {
		case bytes.HasPrefix(line, []byte("Anonymous:")):
			if s.from != s.to && bytes.Contains(line, []byte(" 0 kB")) {
				found = append(found, s)
			}
		case line[0] >= '0' && line[0] <= '9' || line[0] >= 'a' && line[0] <= 'f':
			s = fileMapping(line)
		}
	}
	return found
}

// fileMapping reads "00400000-01234000 r-xp 00000000 fe:00 1234 /path"; it is empty when it can be written to or has no
// file.
func fileMapping(line []byte) span {
	addresses, rest, _ := bytes.Cut(line, []byte{' '})
	if len(rest) < 4 || rest[1] == 'w' || !bytes.Contains(rest, []byte{'/'}) {
		return span{}
	}
	lo, hi, _ := bytes.Cut(addresses, []byte{'-'})
	from, err1 := strconv.ParseUint(string(lo), 16, 64)
	to, err2 := strconv.ParseUint(string(hi), 16, 64)
	if err1 != nil || err2 != nil {
		return span{}
	}
	return span{uintptr(from), uintptr(to)}
}

// advise is advice: a kernel that does not take it costs memory, nothing else.
func advise(s span, advice uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, s.from, s.to-s.from, advice)
}
