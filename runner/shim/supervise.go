package shim

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/redact"
	"github.com/berthq/berth/runner/spool"
)

// drain is how long the log pipes may take to end once every process of the run is gone. Longer only when one of
// their ends was handed to a stranger.
const drain = time.Second

// supervisor is one run under way.
type supervisor struct {
	order Order
	state State
	plan  *plan
	tree  tree

	alarm    *alarm
	signals  <-chan os.Signal
	commands <-chan string
	ended    chan syscall.WaitStatus // of the command; once
	reaped   chan struct{}           // closed when no child is left

	pipe    pipeline
	writers [2]*os.File // what the next command writes to; nil when there will be none

	pipes  [2]*os.File
	caught sync.WaitGroup
	log    *spool.Writer
	exit   *os.File // exit.json, reserved

	status   *syscall.WaitStatus
	warnings []string
	warned   map[string]bool
	left     int // processes that outlived the command
}

// newSupervisor gets ready what does not depend on the order. The process stands in the run's folder.
func newSupervisor() (*supervisor, error) {
	s := &supervisor{ended: make(chan syscall.WaitStatus, 1), reaped: make(chan struct{}), warned: map[string]bool{}, signals: signals()}
	if len(os.Args) > 2 && os.Args[2] != "" {
		s.tree.group = &cgroup.Group{Dir: os.Args[2]}
	}
	err := proc.BecomeSubreaper()
	if err != nil {
		return nil, err
	}
	if s.alarm, err = newAlarm(); err != nil {
		return nil, err
	}
	if s.commands, err = commands(ControlFile); err != nil {
		return nil, err
	}
	if s.exit, err = reserve("."); err != nil {
		return nil, err
	}
	s.log, err = spool.Create(".", 0)
	return s, err
}

// retire ends a shim that got no order: its worker has no use for it, or is gone.
func (s *supervisor) retire() error {
	if s.tree.group != nil {
		if err := s.tree.group.Remove(); err != nil {
			return err
		}
	}
	dir, err := os.Getwd()
	if err != nil || !strings.Contains(dir, "/"+SparesDir+"/") {
		return err // it is a run's already: whoever adopts it has to see that it never started
	}
	return os.RemoveAll(dir)
}

// ready makes what the order alone decides.
func (s *supervisor) ready() error {
	s.log.SetCap(s.order.LogCap)
	s.pipe = newPipeline(s.order)
	for i := range s.pipes {
		var err error
		if s.pipes[i], s.writers[i], err = os.Pipe(); err != nil {
			return err
		}
	}
	s.order.Account.own(s.writers)
	s.state = State{BootID: proc.BootID(), Shim: process(os.Getpid())}
	return nil
}

// start starts the command, or the first step.
func (s *supervisor) start() error {
	// A worker that was frozen on its way here gives a word that has no right behind it any more.
	if late := s.order.Deadline; late > 0 && proc.Boottime() >= late {
		return refusal{0, "the worker's session was over before the run could begin"}
	}
	if err := s.begin(); err != nil {
		return err
	}
	s.plan = newPlan(s.order, s.state.StartedBoot)
	for i, stream := range []spool.Stream{spool.Stdout, spool.Stderr} {
		c := &catcher{stream: stream, pipe: s.pipes[i], log: s.log, clean: redact.New(s.order.Secrets)}
		s.caught.Go(c.run)
	}
	return nil
}

// settle does what has to be done and need not hold up the start.
func (s *supervisor) settle() error {
	retitle(s.order.ID + " " + s.order.Folder)
	if !s.pipe.more() {
		s.order.Env = nil
	}
	if err := errors.Join(writeJSON(StateFile, s.state), s.pipe.write()); err != nil {
		return fmt.Errorf("the run's state could not be written: %w", err)
	}
	yieldMemory(s.state.Job.PID)
	words, err := os.OpenFile(LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer words.Close()
	return os.NewSyscallError("dup3", syscall.Dup3(int(words.Fd()), 2, 0))
}

// yieldMemory: where memory runs out, the run goes before the services of the machine. Its children inherit it.
func yieldMemory(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("500"), 0) // not every kernel lets us
}

func process(pid int) Process {
	st, err := proc.Read(pid)
	if err != nil {
		return Process{PID: pid} // ended and reaped already
	}
	return Process{PID: pid, Start: st.Start}
}

// reap waits for the command and, as subreaper, for every orphan of the run. No child left means no descendant left.
// With more it ends with a command that ended well: whoever starts the next one starts the next reap, so that nobody
// waits for a child whose number is not known yet.
func (s *supervisor) reap(command int, more bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			close(s.reaped)
			return
		case pid == command:
			s.ended <- status
			if more && succeeded(status) {
				return
			}
		}
	}
}

// supervise stays with the run until nothing of it is left, then writes down how it ended.
func (s *supervisor) supervise() error {
	reaped := s.reaped
	for gone := false; !gone || !s.tree.empty(); {
		s.alarm.set(s.plan.due())
		select {
		case <-s.alarm.C:
		case line := <-s.commands:
			s.obey(line)
		case sig := <-s.signals:
			s.told(sig)
		case status := <-s.ended:
			s.commandOver(status)
		case <-reaped:
			gone, reaped = true, nil
			s.commandStatus()
			s.plan.commandEnded(proc.Boottime()) // what a stranger put into the cgroup goes the same way
		}
		if s.act() {
			return s.finish(s.tree.living())
		}
	}
	return s.finish(nil)
}

// commandStatus takes the command's status when the news that all is reaped came first.
func (s *supervisor) commandStatus() {
	select {
	case status := <-s.ended:
		s.commandOver(status)
	default:
	}
}

// act does what the plan says is due; true means that what is left will not die.
func (s *supervisor) act() (abandoned bool) {
	for {
		switch s.plan.next(proc.Boottime()) {
		case wait:
			return false
		case checkpoint:
			s.giveReason()
			if s.tree.signal(syscall.Signal(s.order.CheckpointSignal), true) == 0 {
				s.warn("no process of the run had a handler for the checkpoint signal: it was not sent")
			}
		case ask:
			s.giveReason()
			asked := s.tree.signal(syscall.Signal(s.order.StopSignal), false)
			if s.status != nil && s.plan.cause == "" {
				s.left = asked
			}
		case kill:
			s.tree.kill()
		case abandon:
			return true
		}
	}
}

// giveReason tells the job why it is asked to stop, before it is asked.
func (s *supervisor) giveReason() {
	cause, why := s.plan.cause, s.plan.why
	if cause == "" && s.status == nil {
		cause, why = CauseTimeout, "the time limit of "+s.plan.limitText+" is near"
	}
	if cause == "" {
		return // only leftovers are asked
	}
	if err := writeInJob(StopReasonFile("."), []byte(cause+"\n"+why+"\n")); err != nil {
		s.warn("the stop reason could not be written: " + err.Error())
	}
}

// obey follows one line of the control channel. What it does not know it ignores: a newer worker may have said it.
func (s *supervisor) obey(line string) {
	verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	switch verb {
	case "extend":
		if n, err := strconv.ParseInt(rest, 10, 64); err == nil {
			s.plan.extend(time.Duration(n))
		}
	case "limit":
		if n, err := strconv.ParseInt(rest, 10, 64); err == nil {
			s.plan.setLimit(time.Duration(n))
		}
	case "stop":
		cause, rest, _ := strings.Cut(rest, " ")
		grace, why, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseInt(grace, 10, 64); err == nil {
			s.plan.stop(proc.Boottime(), cause, why, time.Duration(n))
		}
	}
}

// told follows a signal to the shim itself. SIGTERM comes when the machine goes down; a closing terminal is nothing
// to it.
func (s *supervisor) told(sig os.Signal) {
	if sig == syscall.SIGTERM {
		s.plan.stop(proc.Boottime(), CauseDrained, "the shim was told to end (SIGTERM): the machine may be going down", s.order.Grace)
	}
}

func (s *supervisor) warn(text string) {
	if !s.warned[text] {
		s.warned[text] = true
		s.warnings = append(s.warnings, text)
	}
}

// finish drains the logs, reads the counters, and writes exit.json: the last thing a shim does.
func (s *supervisor) finish(survivors []proc.Stat) error {
	elapsed := proc.Boottime() - s.state.StartedBoot
	s.closeWriters()
	s.tidy()
	s.drainLogs()
	s.cleanResult()
	s.lastWords()
	exit := Exit{
		Cause: s.plan.cause, Why: s.plan.why, StartedAt: s.state.StartedAt, Elapsed: elapsed,
		Survivors: pids(survivors), Steps: s.pipe.states, Refused: s.pipe.refused,
	}
	exit.Code, exit.Signal = decode(s.status)
	s.count(&exit)
	if s.left > 0 {
		s.warn(fmt.Sprintf("processes of the run were still there when its command ended (%d), and were stopped", s.left))
	}
	kept, dropped, err := s.log.Close()
	if err != nil {
		s.warn(fmt.Sprintf("part of the log was lost: %v", err))
	}
	exit.LogBytes, exit.LogDropped, exit.Warnings = kept+dropped, dropped, s.warnings
	if err := commit(s.exit, ExitFile, exit); err != nil {
		return fmt.Errorf("how the run ended could not be written: %w", err)
	}
	return nil
}

// drainLogs waits for the ends of the pipes, which come when the last process of the run is gone.
func (s *supervisor) drainLogs() {
	done := make(chan struct{})
	go func() { s.caught.Wait(); close(done) }()
	late := time.NewTimer(drain)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		s.warn("a process outside the run holds its output open; what it writes from now on is not kept")
		for _, p := range s.pipes {
			p.Close()
		}
		<-done
	}
}

// lastWords looks once more for a SIGTERM to the shim when the command died of a signal nobody here sent: a machine
// that goes down signals all processes at about the same time.
func (s *supervisor) lastWords() {
	if s.plan.cause != "" || s.status == nil || !s.status.Signaled() {
		return
	}
	moment := time.NewTimer(50 * time.Millisecond)
	defer moment.Stop()
	for {
		select {
		case sig := <-s.signals:
			if sig == syscall.SIGTERM {
				s.plan.cause, s.plan.why = CauseDrained, "the machine told all processes to end (SIGTERM)"
				return
			}
		case <-moment.C:
			return
		}
	}
}

// count reads what the run used, from its cgroup as far as that counts, otherwise from what the kernel adds up for
// reaped children.
func (s *supervisor) count(exit *Exit) {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) == nil {
		exit.CPUSeconds = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
		peak := (used.Maxrss + 1023) / 1024
		exit.PeakMemoryMB = &peak
	}
	limits := cgroup.Legacy(s.order.Legacy)
	exit.OOMKills = limits.OOMKills()
	if peak, ok := limits.PeakMemoryMB(); ok {
		exit.PeakMemoryMB = &peak
	}
	refused := limits.RefusedForks()
	if s.tree.group != nil {
		refused += s.tree.group.RefusedForks()
	}
	if refused > 0 {
		s.warn(fmt.Sprintf("the run had as many processes as it may have: %d more were refused", refused))
	}
	if err := limits.Remove(); err != nil && len(exit.Survivors) == 0 {
		s.warn(err.Error())
	}
	if s.tree.group == nil {
		return
	}
	exit.OOMKills += s.tree.group.OOMKills()
	if cpu, ok := s.tree.group.CPUSeconds(); ok {
		exit.CPUSeconds = cpu
	}
	if peak, ok := s.tree.group.PeakMemoryMB(); ok {
		exit.PeakMemoryMB = &peak
	}
	if err := s.tree.group.Remove(); err != nil && len(exit.Survivors) == 0 {
		s.warn(err.Error())
	}
}

func decode(status *syscall.WaitStatus) (code, signal int) {
	switch {
	case status == nil:
		return 128 + int(syscall.SIGKILL), int(syscall.SIGKILL) // it would not die: the kill is what it got
	case status.Signaled():
		return 128 + int(status.Signal()), int(status.Signal())
	}
	return status.ExitStatus(), 0
}

func pids(all []proc.Stat) []int {
	var list []int
	for _, s := range all {
		list = append(list, s.PID)
	}
	return list
}
