package telemetry

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// maxCommand is how much of a command line is kept: enough to recognise it by.
const maxCommand = 256

// describeProcess asks /proc whose a process is and what it was called with. ok is false when it has ended, or is
// not to be seen from here.
func describeProcess(pid int) (uid uint32, command string, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	info, err := os.Stat(dir)
	if err != nil {
		return 0, "", false
	}
	if st, isStat := info.Sys().(*syscall.Stat_t); isStat {
		uid = st.Uid
	}
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(line) == 0 { // a kernel thread, or ended and not yet waited for
		line, _ = os.ReadFile(dir + "/comm")
	}
	return uid, printable(line), true
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
	describe func(pid int) (owner, command string) // nil: from /proc
	users    users
	known    map[int]*named
}

type named struct {
	started        string
	owner, command string
	uid            uint32
	hasUID         bool
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
		who = &named{started: started}
		if n.describe != nil {
			who.owner, who.command = n.describe(pid)
		} else {
			who.uid, who.command, who.hasUID = describeProcess(pid)
		}
		n.known[pid] = who
	}
	if who.hasUID {
		who.owner = n.users.name(who.uid)
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
