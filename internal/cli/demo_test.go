package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/internal/cli/explain"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// demonstration is a berth up --demo and what it has shown so far.
type demonstration struct {
	t    *testing.T
	cmd  *exec.Cmd
	said *output
	done chan struct{}
	dir  string
	env  []string

	mu        sync.Mutex
	cards     map[string]bool // "machine state"
	instances map[string]bool // of the machine whose worker is replaced
	draining  bool
}

// TestDemo plays one made-up day and finds each thing that it promises with the commands that it names.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := startDemonstration(t)
	q, closeQueue := d.open()
	defer closeQueue()
	defer d.watch(q)()

	d.await("without asking Berth")
	d.foreign(q)
	d.await("it is dead")
	if list := d.berth("dead", "ls"); !strings.Contains(list, "kernel-experiment") || !strings.Contains(list, "XID 79") {
		t.Errorf("dead ls:\n%s", list)
	}
	d.await("day 1 is over")
	if said := d.said.String(); strings.Contains(said, "as it was written") || strings.Contains(said, "started again") {
		t.Errorf("the day did not go as it was written:\n%s", said)
	}
	d.ends()
	d.groups()
	d.secondTries()
	d.steps()
	d.events()
	d.seen()
	d.marks()
	d.leave()
}

func startDemonstration(t *testing.T) *demonstration {
	tmp := t.TempDir()
	d := &demonstration{t: t, said: &output{}, done: make(chan struct{}), cards: map[string]bool{}, instances: map[string]bool{}}
	d.cmd = exec.Command("berth", "up", "--demo", "--demo-pace", "4", "--http", "127.0.0.1:0")
	d.cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "GORACE=atexit_sleep_ms=0", "BERTH_SERVER=nats://127.0.0.1:1", "BERTH_TOKEN=of-another")
	d.cmd.Stdout, d.cmd.Stderr = d.said, d.said
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait() // its state says how it ended
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(os.Interrupt) // it has ended, unless the test failed
		<-d.done
		if t.Failed() {
			t.Log(d.said.String())
		}
	})
	d.await("in another terminal")
	door := regexp.MustCompile(`in another terminal: \. (\S+);`).FindStringSubmatch(d.said.String())
	d.dir = filepath.Dir(door[1])
	text, err := os.ReadFile(door[1])
	if err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_CONFIG_HOME="+tmp)
	for word := range strings.FieldsSeq(strings.TrimPrefix(string(text), "export ")) {
		d.env = append(d.env, word)
	}
	return d
}

// await waits until it has said something.
func (d *demonstration) await(text string) {
	d.t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(d.said.String(), text) {
		select {
		case <-tick.C:
		case <-d.done:
			d.t.Fatalf("berth up --demo ended before it said %q", text)
		case <-late:
			d.t.Fatalf("berth up --demo never said %q", text)
		}
	}
}

func (d *demonstration) open() (*queue.Queue, func()) {
	c, _, err := config.LoadClient(config.ClientSources{Environ: d.env})
	if err != nil {
		d.t.Fatal(err)
	}
	nc, err := queue.Connect(d.t.Context(), queue.ConnectOptions{URL: c.Server, Token: c.Token, Timeout: patience})
	if err != nil {
		d.t.Fatal(err)
	}
	q, err := queue.OpenClient(d.t.Context(), nc, queue.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	return q, func() { q.Close(); nc.Close() }
}

// watch notes what the machines announce, until the function that it returns is called.
func (d *demonstration) watch(q *queue.Queue) func() {
	ctx, cancel := context.WithCancel(d.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := q.WatchMachines(ctx, func(m queue.Machine) {
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, g := range m.GPUs {
				d.cards[m.Name+" "+g.State] = true
			}
			if m.Name == "demo-l4" {
				d.instances[m.Instance] = true
			}
			d.draining = d.draining || m.Draining
		}, func(string) {})
		if err != nil && ctx.Err() == nil {
			d.t.Error(err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// berth runs a command against the demonstration.
func (d *demonstration) berth(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "berth", args...)
	cmd.Env = d.env
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, &complaints)
	}
	return string(out)
}

// foreign: a job waits because of somebody who computes without Berth, and is told so.
func (d *demonstration) foreign(q *queue.Queue) {
	d.t.Helper()
	ref, err := q.Resolve(d.t.Context(), "grasp-planner", queue.Me{Project: "robotics", User: "robotics-student"})
	if err != nil {
		d.t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		facts, err := explain.Gather(d.t.Context(), q, ref, time.Now())
		if err != nil {
			d.t.Fatal(err)
		}
		why := explain.Why(facts)
		if why.Reason == "Foreign" {
			return
		}
		if strings.Contains(d.said.String(), "is done") {
			d.t.Fatalf("grasp-planner was said to wait because of %s (%s)", why.Reason, why.Text)
		}
		<-tick.C
	}
}

// results are those of the day, the last of each job, by name; a group's by name and index.
func (d *demonstration) results() map[string]job.Result {
	d.t.Helper()
	found := map[string]job.Result{}
	for line := range strings.Lines(d.berth("results", "-o", "jsonl")) {
		var r job.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			d.t.Fatalf("%v: %s", err, line)
		}
		if r.Labels["demo"] != "made-up" && r.Name != "notebook" {
			d.t.Errorf("the result of job %d (%s) is not marked: %v", r.Number, r.Name, r.Labels)
		}
		if r.Index == nil {
			found[r.Name] = r
		}
	}
	return found
}

// ends: every state that a job can end in is among the results.
func (d *demonstration) ends() {
	results := d.results()
	for name, want := range map[string]job.State{
		"train-segmentation": job.Succeeded, "pretrain-encoder": job.Succeeded, "reconstruct": job.Succeeded, "throughput-sweep": job.Succeeded,
		"segment-cells": job.Succeeded, "finetune": job.Succeeded, "report": job.Succeeded, "four-cards": job.Succeeded, "grasp-planner": job.Succeeded, "nvlink-test": job.Succeeded,
		"long-inference": job.Succeeded, "broken-config": job.Failed, "endless": job.TimedOut, "wrong-branch": job.Cancelled, "kernel-experiment": job.Dead,
	} {
		if got := results[name].State; got != want {
			d.t.Errorf("%s ended %q, not %s", name, got, want)
		}
	}
	if r := results["long-inference"]; r.Attempt != 1 {
		d.t.Errorf("the job under the replaced worker took %d attempts", r.Attempt)
	}
	if g := results["train-segmentation"].GPUMonitoring; g == nil || len(g.GPUStats) != 2 {
		d.t.Errorf("the training on two cards has the readings %+v", g)
	}
	if prepared, reported := results["prepare-corpus"], results["report"]; !reported.StartedAt.After(*prepared.EndedAt) {
		d.t.Errorf("report began %v, before prepare-corpus ended %v", reported.StartedAt, prepared.EndedAt)
	}
}

// number is a job's, which people of other projects know it by.
func (d *demonstration) number(name string) string {
	d.t.Helper()
	r, found := d.results()[name]
	if !found {
		d.t.Fatalf("no result of %s", name)
	}
	return strconv.FormatUint(r.Number, 10)
}

func (d *demonstration) groups() {
	if n := strings.Count(d.berth("results", d.number("reconstruct"), "-o", "csv"), "succeeded"); n < 24 {
		d.t.Errorf("%d tasks of the array succeeded", n)
	}
	table := d.berth("results", d.number("throughput-sweep"), "-o", "csv")
	for _, want := range []string{"tokens_per_second", "1006", "2340"} { // 900 + 75b - b² + c/8
		if !strings.Contains(table, want) {
			d.t.Errorf("the sweep's table lacks %s:\n%s", want, table)
		}
	}
}

// secondTries: what was tried again, and why.
func (d *demonstration) secondTries() {
	results := d.results()
	for name, want := range map[string]job.Outcome{"finetune": job.OutcomeOOMGPU, "train-segmentation": job.OutcomeGPUFault} {
		a := results[name].Attempts
		if len(a) < 2 || a[0].Outcome != want || a[len(a)-1].Outcome != job.OutcomeSucceeded {
			d.t.Errorf("%s: its attempts are %+v", name, a)
		}
	}
	var shown struct {
		Requirements job.Requirements `json:"requirements"`
	}
	if err := json.Unmarshal([]byte(d.berth("show", d.number("finetune"), "-o", "json")), &shown); err != nil {
		d.t.Fatal(err)
	}
	if shown.Requirements.GPUMemoryMB <= 12*1024 {
		d.t.Errorf("after running out of memory it asks for %d MiB", shown.Requirements.GPUMemoryMB)
	}
	if out := d.berth("logs", d.number("train-segmentation")); !strings.Contains(out, "resumed after epoch") {
		d.t.Errorf("the training did not resume:\n%s", out)
	}
}

func (d *demonstration) steps() {
	if steps := d.results()["segment-cells"].Steps; len(steps) != 3 || steps[2].Exit == nil || steps[2].Exit.Code != 0 {
		d.t.Errorf("the pipeline's steps are %+v", steps)
	}
}

func (d *demonstration) events() {
	log := d.berth("events", "-o", "jsonl")
	for _, kind := range []string{"quarantine", "restore", "drain", "undrain", "cancel", "lease", "drop"} {
		if !strings.Contains(log, `"kind":"`+kind) {
			d.t.Errorf("no %s among the events:\n%s", kind, log)
		}
	}
}

// seen: what the machines announced while the day went by.
func (d *demonstration) seen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, want := range []string{"demo-a100 quarantined", "demo-desk foreign", "demo-h100 busy"} {
		if !d.cards[want] {
			d.t.Errorf("no GPU was %q, only %v", want, d.cards)
		}
	}
	if len(d.instances) < 2 || !d.draining {
		d.t.Errorf("demo-l4 had %d workers; a machine was drained: %v", len(d.instances), d.draining)
	}
}

// marks: a person is told on the screen and on the pages that it is a demonstration; a program is not disturbed.
func (d *demonstration) marks() {
	const mark = "Demonstration: simulated GPUs and a made-up day"
	if out := d.berth("status"); strings.Contains(out, mark) {
		d.t.Errorf("in a pipe:\n%s", out)
	}
	master, slave, err := terminal(120)
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command("berth", "status")
	cmd.Env = slices.Concat(d.env, []string{"TERM=xterm"})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	err = cmd.Start()
	if err := errors.Join(err, slave.Close()); err != nil {
		d.t.Fatal(err)
	}
	screen, err := io.ReadAll(master) // EIO is how a terminal ends
	if err != nil && !errors.Is(err, syscall.EIO) || !strings.Contains(string(screen), mark) {
		d.t.Errorf("on a terminal: %v\n%s", err, screen)
	}
	if err := errors.Join(cmd.Wait(), master.Close()); err != nil {
		d.t.Error(err)
	}
	url := regexp.MustCompile(`dashboard at (\S+)`).FindStringSubmatch(d.said.String())
	jar, _ := cookiejar.New(nil) // it never fails
	client := &http.Client{Jar: jar, Timeout: patience}
	defer client.CloseIdleConnections()
	page, err := client.Get(url[1])
	if err != nil {
		d.t.Fatal(err)
	}
	defer page.Body.Close()
	if body, err := io.ReadAll(page.Body); err != nil || !strings.Contains(string(body), mark) {
		d.t.Errorf("the page: %v, %s\n%s", err, page.Status, body)
	}
}

// leave: Ctrl-C ends it while jobs run, and nothing stays.
func (d *demonstration) leave() {
	submit := exec.Command("submit", "-q", "-J", "endless-too", "-g", "1", "--", "sleep", "3600")
	submit.Env, submit.Dir = d.env, d.dir
	if out, err := submit.CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	late := time.Now().Add(patience)
	for !strings.Contains(d.berth("status", "endless-too"), "running") {
		if time.Now().After(late) {
			d.t.Fatal("the last job never ran")
		}
	}
	if len(belongings(d.t, d.dir)) == 0 {
		d.t.Error("no process of the demonstration is found: the search below would find none either")
	}
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatal("it goes on after Ctrl-C")
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		d.t.Errorf("it ended with %d", code)
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		d.t.Errorf("%s is still there: %v", d.dir, err)
	}
	if left := belongings(d.t, d.dir); len(left) > 0 {
		d.t.Errorf("still running: %q", left)
	}
}

// belongings are the processes that have to do with a folder: by command line, environment or working folder.
func belongings(t *testing.T, dir string) []string {
	t.Helper()
	pids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range pids {
		line, _ := os.ReadFile(p + "/cmdline") // it may have ended, or be another user's
		environ, _ := os.ReadFile(p + "/environ")
		cwd, _ := os.Readlink(p + "/cwd")
		if len(line) > 0 && strings.Contains(string(line)+string(environ)+cwd, dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
