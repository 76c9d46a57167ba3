package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/client"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

// refused fails the test unless the error is that one and says those words.
func refused(t *testing.T, what string, err, want error, words ...string) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

// Nobody there, and somebody who says nothing: both are heard about within the two seconds of a person's patience, which
// the error does not leave to guess: it names the address. The bound here is a verdict on a hang.
func TestNoBroker(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := gone.Addr().String()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{silent.Addr().String(), free} {
		began := time.Now()
		_, err := client.Connect(t.Context(), client.Options{Server: "nats://" + address, User: "x"})
		refused(t, "no broker", err, client.ErrUnreachable, address, "berth up")
		took := time.Since(began)
		t.Logf("%s: heard after %s", address, took.Round(time.Millisecond))
		if took > 20*time.Second {
			t.Errorf("%s: heard after %s", address, took)
		}
	}
}

func TestWrongToken(t *testing.T) {
	t.Parallel()
	b := natstest.New(t, natstest.WithToken("the-right-one"))
	for _, token := range []string{"", "a-wrong-one"} {
		_, err := client.Connect(t.Context(), client.Options{Server: b.URL(), Token: token, User: "x"})
		refused(t, "token "+token, err, client.ErrUnauthorized, "berth token")
	}
	o, err := client.FromEnv([]string{"BERTH_SERVER=" + b.URL(), "BERTH_TOKEN=the-right-one", "BERTH_PROJECT=vision", "USER=Ada.L@LAB", "HOME=" + t.TempDir()})
	if err != nil || o.User != "ada-l-lab" || o.Project != "vision" {
		t.Fatalf("%+v, %v", o, err)
	}
	c, err := client.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A program's options come from what berth up wrote when the environment says nothing, and never from another place.
func TestFromEnvReadsWhatBerthUpWrote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "berth"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "berth", "client.env")
	if err := os.WriteFile(file, []byte("BERTH_SERVER=nats://own:4222\nBERTH_TOKEN=secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := client.FromEnv([]string{"XDG_CONFIG_HOME=" + dir})
	if err != nil || o.Server != "nats://own:4222" || o.Token != "secret" || o.User != "" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := client.FromEnv([]string{"BERTH_CONTEXT=../x", "XDG_CONFIG_HOME=" + dir}); err == nil {
		t.Error("a context that is a path was read")
	}
}

// What cannot become a job is refused before anything is sent, and what is not there is said at once.
func TestBadInput(t *testing.T) {
	t.Parallel()
	b := natstest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Server: b.URL(), User: "pipeline"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	command := job.Command{"true"}
	for words, spec := range map[string]job.Spec{
		"command":                   {},
		"name":                      {Command: command, Name: strings.Repeat("x", 10_000)},
		"a program gives the value": {Command: command, Env: map[string]*string{"HF_TOKEN": nil}},
		"env_file":                  {Command: command, EnvFile: []string{".env"}},
		"an absolute path":          {Command: command, Workdir: "here"},
		"of the machines":           {Command: command},
		"project":                   {Command: command, Project: "Not A Project"},
	} {
		if words != "an absolute path" && words != "of the machines" {
			spec.Workdir = "/"
		}
		_, err := c.Submit(ctx, spec)
		refused(t, words, err, nil, words)
	}
	_, err = c.Wait(ctx, client.Job(99))
	refused(t, "wait for an unknown job", err, client.ErrNotFound, "99")
	_, err = c.Cancel(ctx, client.Task(99, 3), "")
	refused(t, "cancel an unknown task", err, client.ErrNotFound)
	for _, err := range c.Results(ctx, client.ResultQuery{From: 5, Follow: true}) {
		refused(t, "ahead of the log", err, client.ErrNotYet, "5")
	}
	for _, err := range c.Events(ctx, client.EventQuery{From: 5}) {
		refused(t, "ahead of the log of events", err, client.ErrNotYet, "BERTH_EVENTS")
	}
	receipt, err := c.Submit(ctx, job.Spec{Command: command, Workdir: "/"})
	if err != nil || receipt.Number != 1 {
		t.Errorf("after all that: %+v, %v; want job 1", receipt, err)
	}
	nobody, err := client.Connect(ctx, client.Options{Server: b.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	_, err = nobody.Submit(ctx, job.Spec{Command: command, Workdir: "/"})
	refused(t, "no user", err, nil, "Options.User")
	_, err = nobody.Cancel(ctx, client.Job(1), "")
	refused(t, "no user", err, nil, "Options.User")
}

// A reader that stayed away for longer than results are kept is told so, and where they begin now, instead of being given
// the next one as if it had missed none.
func TestSequenceNoLongerKept(t *testing.T) {
	t.Parallel()
	b := natstest.New(t)
	c, err := client.Connect(t.Context(), client.Options{Server: b.URL()}) // a reader needs no name
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(b.Connect())
	if err != nil {
		t.Fatal(err)
	}
	for number := range 3 {
		body, err := json.Marshal(job.Result{Number: uint64(number + 1), Project: "lab", State: job.Succeeded})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), fmt.Sprintf("berth.results.lab.%d", number+1), body); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := js.Stream(t.Context(), queue.StreamResults)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(3)); err != nil {
		t.Fatal(err)
	}
	read := func(from uint64) (numbers []uint64, err error) {
		for r, err := range c.Results(t.Context(), client.ResultQuery{From: from}) {
			if err != nil {
				return numbers, err
			}
			numbers = append(numbers, r.Value.Number)
		}
		return numbers, nil
	}
	numbers, err := read(2)
	refused(t, "sequence 2", err, client.ErrNotKept, "2; BERTH_RESULTS begins with 3")
	if len(numbers) > 0 {
		t.Errorf("and was given %v", numbers)
	}
	if numbers, err = read(3); err != nil || len(numbers) != 1 || numbers[0] != 3 {
		t.Errorf("from where it begins now: %v, %v", numbers, err)
	}
}
