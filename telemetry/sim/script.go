package sim

import (
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// stage is how far a scripted fault has come.
type stage int

const (
	waiting stage = iota
	begun
	over
)

// script makes what the file has foreseen happen.
func (s *Source) script(now time.Time) {
	elapsed := now.Sub(s.started)
	for i, f := range s.config.Faults {
		if s.stages[i] == waiting && elapsed >= f.At.Std() {
			s.stages[i] = begun
			s.begin(s.cards[f.GPU], f, now)
		}
		if s.stages[i] == begun && f.For > 0 && elapsed >= (f.At+f.For).Std() {
			s.stages[i] = over
			s.end(s.cards[f.GPU], f)
		}
	}
}

func (s *Source) begin(c *card, f FaultConfig, now time.Time) {
	switch f.Kind {
	case "xid":
		s.happen(telemetry.NewXID(c.UUID, f.XID, now))
	case "lost":
		c.lost = true
	case "hang":
		c.hungSince = now
	case "recovery":
		c.action = max(f.Action, 1)
	case "ecc":
		c.errors += max(f.Errors, 1)
	}
}

func (s *Source) end(c *card, f FaultConfig) {
	switch f.Kind {
	case "lost":
		c.lost = false
	case "hang":
		c.hungSince = time.Time{}
	case "recovery":
		c.action = 0
	}
}

func (s *Source) happen(f telemetry.Fault) {
	select {
	case s.faults <- f:
	default:
		s.config.Logger.Error("simulated fault not taken: its reader is behind", "fault", f.String())
	}
}

// obey does what a line of the control file says; one that cannot be understood gets a warning.
func (s *Source) obey(line string, now time.Time) {
	words := strings.Fields(line)
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return
	}
	if !s.understand(words, now) {
		s.config.Logger.Warn("control file of the simulated GPUs: not understood", "line", line)
	}
}

func (s *Source) understand(words []string, now time.Time) bool {
	if len(words) < 3 {
		return false
	}
	on := words[2] == "on"
	if words[0] == "all" && words[1] == "hang" {
		s.hung = time.Time{}
		if on {
			s.hung = now
		}
		return true
	}
	gpu, err := strconv.Atoi(words[0])
	if err != nil || gpu < 0 || gpu >= len(s.cards) {
		return false
	}
	c := s.cards[gpu]
	number, err := strconv.Atoi(words[2])
	switch words[1] {
	case "lost":
		c.lost = on
		return true
	case "hang":
		c.hungSince = time.Time{}
		if on {
			c.hungSince = now
		}
		return true
	case "xid":
		s.happen(telemetry.NewXID(c.UUID, number, now))
	case "recovery":
		c.action = number
	case "ecc":
		c.errors += int64(number)
	case "foreign":
		return err == nil && c.invite(number, words[3:])
	default:
		return false
	}
	return err == nil
}

// invite puts a stranger on the card, or takes it off.
func (c *card) invite(pid int, words []string) bool {
	if len(words) == 1 && words[0] == "off" {
		delete(c.foreign, pid)
		return true
	}
	if len(words) < 2 {
		return false
	}
	mb, err := strconv.ParseInt(words[0], 10, 64)
	percent, percentErr := strconv.ParseFloat(words[1], 64)
	if err != nil || percentErr != nil || mb < 0 || pid <= 0 {
		return false
	}
	user, command := "", ""
	if len(words) > 2 {
		user, command = words[2], strings.Join(words[3:], " ")
	}
	c.foreign[pid] = stranger(pid, mb, percent, user, command)
	return true
}

// control is a file of which only what is appended counts.
type control struct {
	path   string
	offset int64
	log    *slog.Logger
}

// skip leaves out what was there before: that was for another run.
func (c *control) skip() {
	if info, err := os.Stat(c.path); err == nil {
		c.offset = info.Size()
	}
}

// read is the whole lines appended since the last time. A file that has become shorter is a new one.
func (c *control) read() []string {
	if c.path == "" {
		return nil
	}
	info, err := os.Stat(c.path)
	if err != nil || info.Size() == c.offset {
		return nil
	}
	if info.Size() < c.offset {
		c.offset = 0
	}
	f, err := os.Open(c.path)
	if err != nil {
		c.log.Warn("control file of the simulated GPUs", "err", err)
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, c.offset, 1<<20))
	if err != nil {
		c.log.Warn("control file of the simulated GPUs", "err", err)
		return nil
	}
	end := strings.LastIndexByte(string(text), '\n') + 1
	c.offset += int64(end)
	return strings.Split(string(text[:end]), "\n")
}
