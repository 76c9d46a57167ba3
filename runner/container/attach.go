package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/cgroup"
	"github.com/berthq/berth/runner/proc"
)

// Exit codes of the helper's own, as `docker run` has them.
const (
	CodeEngine   = 125 // the engine or the image
	codeNotExec  = 126
	codeNotFound = 127
)

// drain is how long the output may take to end after the container.
const drain = 10 * time.Second

// helper is one container under way.
type helper struct {
	*Engine
	plan           Plan
	stdout, stderr io.Writer

	id    string
	known runner.Inside
}

// live is a container from its creation to its end. Its removal is the run's last command.
func (h *helper) live(signals <-chan os.Signal) int {
	var err error
	if h.Engine, err = Open(h.plan.Engine); err != nil {
		return h.refused(CodeEngine, false, err)
	}
	defer func() { _ = h.Close() }() // only connections that nobody uses
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	early, ready := context.WithCancel(ctx) // a stop before the container runs ends the fetching
	defer ready()
	stop := make(chan syscall.Signal, cap(signals))
	go h.receive(ctx, signals, stop, ready)
	if err := h.create(early); err != nil {
		if early.Err() != nil {
			return 128 + int(syscall.SIGTERM)
		}
		return h.refused(CodeEngine, client.IsErrConnectionFailed(err), err)
	}
	return h.run(ctx, stop)
}

// refused keeps why the container could not be started, and says it where the job's own words would stand.
func (h *helper) refused(code int, machine bool, err error) int {
	h.known.NotStarted, h.known.Code, h.known.Machine = err.Error(), code, machine
	h.say(err.Error())
	h.keep()
	return code
}

func (h *helper) say(text string) { fmt.Fprintln(h.stderr, "berth:", text) }

// keep writes down what is known of the container.
func (h *helper) keep() {
	if err := runner.WriteInside(h.plan.Dir, h.known); err != nil {
		h.say(err.Error())
	}
}

// receive takes the signals that come before there is a container, and passes on the rest.
func (h *helper) receive(ctx context.Context, signals <-chan os.Signal, stop chan<- syscall.Signal, ready func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			s, ok := sig.(syscall.Signal)
			if !ok {
				continue
			}
			if s == h.stopSignal() || s == syscall.SIGTERM {
				ready()
			}
			select {
			case stop <- s:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (h *helper) stopSignal() syscall.Signal {
	if s := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(h.plan.Stop), "SIG")); s != 0 {
		return s
	}
	return syscall.SIGTERM
}

// create fetches the image as far as the policy says, and makes the container.
func (h *helper) create(ctx context.Context) error {
	if err := h.hand(); err != nil {
		return err
	}
	if _, err := h.Sweep(ctx, h.plan.Store, h.plan.Run); err != nil {
		return err
	}
	if err := h.fetch(ctx); err != nil {
		return err
	}
	made, err := h.api.ContainerCreate(ctx, request(h.plan))
	if err != nil {
		return fmt.Errorf("the container engine refused the container: %w", err)
	}
	h.id = made.ID
	return nil
}

// hand gives the worker's folders for this run to the user who runs it. Only numbers can be handed to: a name is known
// inside the image alone.
func (h *helper) hand() error {
	uid, gid, _ := strings.Cut(h.plan.User, ":")
	u, err := strconv.Atoi(uid)
	if numeric := err == nil; !numeric || u == os.Geteuid() {
		return nil
	}
	g, err := strconv.Atoi(gid)
	if err != nil {
		g = -1
	}
	for _, dir := range h.plan.Owned {
		if err := os.Chown(dir, u, g); err != nil {
			return fmt.Errorf("give the run's folder to user %s: %w", h.plan.User, err)
		}
	}
	return nil
}

// run starts the container, copies what it writes, and waits for its end.
func (h *helper) run(ctx context.Context, stop <-chan syscall.Signal) int {
	stream, err := h.api.ContainerAttach(ctx, h.id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return h.refused(CodeEngine, true, fmt.Errorf("listen to the container: %w", err))
	}
	defer stream.Close()
	wait := h.api.ContainerWait(ctx, h.id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := h.api.ContainerStart(ctx, h.id, client.ContainerStartOptions{}); err != nil {
		return h.refused(startCode(err), client.IsErrConnectionFailed(err), fmt.Errorf("the container does not start: %w", err))
	}
	copied := make(chan error, 1)
	go func() {
		_, err := stdcopy.StdCopy(h.stdout, h.stderr, stream.Reader)
		copied <- err
	}()
	h.find(ctx)
	count := time.NewTicker(time.Second)
	defer count.Stop()
	var patience <-chan time.Time
	for {
		select {
		case <-patience:
			// Ahead of the shim's kill: that ends this helper, and the container only after it.
			h.kill(ctx, "SIGKILL")
		case s := <-stop:
			if s == h.stopSignal() && patience == nil {
				patience = time.After(h.grace() * 3 / 4)
			}
			h.count()
			h.pass(ctx, s)
		case <-count.C:
			h.count()
		case end := <-wait.Result:
			return h.ended(ctx, int(end.StatusCode), copied)
		case err := <-wait.Error:
			h.known.Lost = "the container engine is gone, and with it how the container would have ended: " + err.Error()
			h.say(h.known.Lost)
			h.keep()
			return CodeEngine
		}
	}
}

// grace is what the container gets between the stop signal and its kill; when the worker's session is over, less.
func (h *helper) grace() time.Duration {
	reason, _ := os.ReadFile(runner.StopReasonFile(h.plan.Dir)) // absent: an ordinary stop
	if strings.HasPrefix(string(reason), string(runner.SessionLost)) && h.plan.Lost > 0 {
		return min(h.plan.Lost, h.plan.Grace)
	}
	return h.plan.Grace
}

// pass sends a signal on. One that only asks goes to programs that have a handler for it: others would die of it.
func (h *helper) pass(ctx context.Context, s syscall.Signal) {
	asks := s == syscall.SIGUSR1 || s == syscall.SIGUSR2 || s == syscall.SIGALRM || s == syscall.SIGXCPU
	if asks && s != h.stopSignal() && h.known.Group != "" && !h.catches(s) {
		h.say("no process in the container has a handler for " + unix.SignalName(s) + ": it was not sent")
		return
	}
	h.kill(ctx, unix.SignalName(s))
}

func (h *helper) catches(s syscall.Signal) bool {
	for _, pid := range (cgroup.Group{Dir: h.known.Group}).PIDs() {
		if proc.Catches(pid, int(s)) {
			return true
		}
	}
	return false
}

func (h *helper) kill(ctx context.Context, name string) {
	_, err := h.api.ContainerKill(ctx, h.id, client.ContainerKillOptions{Signal: name})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) { // it has ended
		h.say("the container could not be sent " + name + ": " + err.Error())
	}
}

// find looks where the container's processes are, so that the worker knows them for the run's own.
func (h *helper) find(ctx context.Context) {
	h.known.ID = h.id
	seen, err := h.api.ContainerInspect(ctx, h.id, client.ContainerInspectOptions{})
	if err == nil && seen.Container.State != nil && seen.Container.State.Pid > 0 {
		h.known.Group, h.known.Legacy = cgroup.Of(seen.Container.State.Pid, h.id)
	}
	h.count()
	h.keep()
}

// count reads what was used so far: when the container has ended its groups are gone.
func (h *helper) count() {
	group := cgroup.Group{Dir: h.known.Group}
	cpu, ok := group.CPUSeconds()
	if !ok {
		cpu, ok = h.known.Legacy.CPUSeconds()
	}
	if ok {
		h.known.CPUSeconds = &cpu
	}
	peak, ok := group.PeakMemoryMB()
	if !ok {
		peak, ok = h.known.Legacy.PeakMemoryMB()
	}
	if ok {
		h.known.PeakMemoryMB = &peak
	}
}

// ended takes the last of the output and looks why it ended.
func (h *helper) ended(ctx context.Context, code int, copied <-chan error) int {
	late := time.NewTimer(drain)
	defer late.Stop()
	select {
	case err := <-copied:
		if err != nil {
			h.say("part of the container's output was lost: " + err.Error())
		}
	case <-late.C:
		h.say("the container ended, and its output did not: the rest is lost")
	}
	seen, err := h.api.ContainerInspect(ctx, h.id, client.ContainerInspectOptions{})
	switch s := seen.Container.State; {
	case err != nil:
		h.say("the ended container cannot be looked at: " + err.Error())
	case s != nil && s.OOMKilled:
		h.known.OOMKills = 1
	case s != nil && s.Error != "" && code == CodeEngine:
		return h.refused(startCode(errors.New(s.Error)), false, errors.New(s.Error))
	}
	h.keep()
	return code
}
