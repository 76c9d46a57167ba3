package telemetry

import (
	"bytes"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// maxCommand is how much of a command line is kept: enough to recognise it by.
const maxCommand = 256

// DescribeProcess asks /proc whose a process is and what it was called with. Empty when it has ended, or is not to
// be seen from here.
func DescribeProcess(pid int) (owner, command string) {
	dir := "/proc/" + strconv.Itoa(pid)
	info, err := os.Stat(dir)
	if err != nil {
		return "", ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = userName(st.Uid)
	}
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(line) == 0 { // a kernel thread, or ended and not yet waited for
		line, _ = os.ReadFile(dir + "/comm")
	}
	return owner, printable(line)
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// printable makes one line of a command line, safe for a terminal: anyone may call a program anything.
func printable(line []byte) string {
	line = bytes.TrimRight(line, "\x00\n")
	line = bytes.ReplaceAll(line, []byte{0}, []byte{' '})
	text := strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || r == '\uFFFD' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(line), "?"))
	if cut := []rune(text); len(cut) > maxCommand {
		text = string(cut[:maxCommand-1]) + "…"
	}
	return text
}

// namer remembers whose a process is for as long as it is seen. A PID given to another process is noticed by its
// start time.
type namer struct {
	describe func(pid int) (owner, command string)
	known    map[int]*named
}

type named struct {
	started        string
	owner, command string
	seen           bool
}

// name leaves alone what the source knows already: a simulated process is not in /proc.
func (n *namer) name(p *Process) {
	if p.User != "" || p.Command != "" {
		return
	}
	if n.known == nil {
		n.known = map[int]*named{}
	}
	who := n.known[p.PID]
	if who == nil || !who.seen { // once a snapshot, however many devices it holds
		who = n.look(p.PID, who)
	}
	p.User, p.Command = who.owner, who.command
}

func (n *namer) look(pid int, who *named) *named {
	if started := startTime(pid); who == nil || who.started != started {
		describe := n.describe
		if describe == nil {
			describe = DescribeProcess
		}
		who = &named{started: started}
		who.owner, who.command = describe(pid)
		n.known[pid] = who
	}
	who.seen = true
	return who
}

// sweep forgets who was not seen since the last sweep.
func (n *namer) sweep() {
	for pid, who := range n.known {
		if !who.seen {
			delete(n.known, pid)
		}
		who.seen = false
	}
}

// startTime is field 22 of /proc/PID/stat, "" when there is no such process.
func startTime(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	end := bytes.LastIndex(stat, []byte(") ")) // the name before it may hold anything, brackets too
	if end < 0 {
		return ""
	}
	fields := bytes.Fields(stat[end+2:])
	if len(fields) < 20 {
		return ""
	}
	return string(fields[19])
}
