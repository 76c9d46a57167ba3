package sim

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// proc is a real process as /proc shows it.
type proc struct {
	cpu     time.Duration // used so far
	started time.Duration // after boot
	rssMB   int64
}

// ticks per second in /proc, the same on every Linux a program can tell of.
const ticks = 100

// readProc is false when there is no such process any more.
func readProc(pid int) (proc, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return proc{}, false
	}
	i := bytes.LastIndex(stat, []byte(") ")) // the name before it may hold anything
	if i < 0 {
		return proc{}, false
	}
	fields := bytes.Fields(stat[i+2:])
	if len(fields) < 22 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return proc{}, false
	}
	number := func(field int) int64 { // as numbered in proc(5); the state is field 3
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	tick := time.Second / ticks
	return proc{
		cpu:     time.Duration(number(14)+number(15)) * tick,
		started: time.Duration(number(22)) * tick,
		rssMB:   number(24) * int64(os.Getpagesize()) >> 20,
	}, true
}

// uptime is the time since boot, on the clock that started is on.
func uptime() time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, _ := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second))
}

func commandLine(pid int) string {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
}

// tracked is a holder between two readings.
type tracked struct {
	proc
	at     time.Time
	share  float64 // CPUs used, over the last stretch long enough to tell
	script *ProcessConfig
	seen   bool
}

// shortest is the stretch over which a share of a CPU is worth measuring: /proc counts in hundredths.
const shortest = 200 * time.Millisecond

// usage is what a process takes of each card it holds.
type usage struct {
	pid     int
	memory  int64
	percent float64
}

// crowd are all processes that hold a card, read once a snapshot however many cards they hold.
type crowd struct {
	scripts    []ProcessConfig
	cpusPerGPU float64
	known      map[int]*tracked
	booted     time.Duration
}

func (c *crowd) begin() {
	if c.known == nil {
		c.known = map[int]*tracked{}
	}
	c.booted = uptime()
	for _, t := range c.known {
		t.seen = false
	}
}

// end forgets who holds nothing any more.
func (c *crowd) end() {
	for pid, t := range c.known {
		if !t.seen {
			delete(c.known, pid)
		}
	}
}

func (c *crowd) usage(pid int, now time.Time) (usage, bool) {
	t := c.known[pid]
	if t == nil || !t.seen {
		p, alive := readProc(pid)
		if !alive {
			return usage{}, false
		}
		t = c.update(pid, t, p, now)
	}
	u := usage{pid: pid, memory: t.rssMB, percent: 100 * t.share / c.cpusPerGPU}
	if t.script != nil {
		age := max(c.booted-t.started, 0)
		if v, ok := t.script.Memory.At(age); ok {
			u.memory = int64(v)
		}
		if v, ok := t.script.Utilization.At(age); ok {
			u.percent = v
		}
	}
	u.percent = math.Min(u.percent, 100)
	return u, true
}

func (c *crowd) update(pid int, t *tracked, p proc, now time.Time) *tracked {
	switch {
	case t == nil || t.started != p.started: // new, or the pid is another's now
		t = &tracked{at: now, script: c.scriptFor(pid)}
		if age := c.booted - p.started; age >= shortest {
			t.share = float64(p.cpu) / float64(age) // over its life so far
		}
		t.proc = p
		c.known[pid] = t
	case now.Sub(t.at) >= shortest:
		t.share = float64(p.cpu-t.cpu) / float64(now.Sub(t.at))
		t.proc, t.at = p, now
	default:
		t.rssMB = p.rssMB
	}
	t.seen = true
	return t
}

func (c *crowd) scriptFor(pid int) *ProcessConfig {
	if len(c.scripts) == 0 {
		return nil
	}
	line := commandLine(pid)
	for i := range c.scripts {
		if c.scripts[i].match.MatchString(line) {
			return &c.scripts[i]
		}
	}
	return nil
}
