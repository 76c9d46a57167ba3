package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// storeResults stores one result for each name, without the jobs behind them.
func (b *bundle) storeResults(project string, names ...string) {
	b.t.Helper()
	for i, name := range names {
		body := `{"version":1,"number":` + string(rune('1'+i)) + `,"name":"` + name + `","project":"` + project + `"}`
		if _, err := b.q.js.Publish(b.ctx, prefixResults+project+"."+string(rune('1'+i)), []byte(body)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bundle) readResults(o ResultOptions) (all []Entry[job.Result], err error) {
	for e, err := range b.q.ResultEntries(b.ctx, o) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func namesOf(all []Entry[job.Result]) string {
	var names []string
	for _, e := range all {
		names = append(names, e.Value.Name)
	}
	return strings.Join(names, " ")
}

// A log is read again from any sequence or time, a reader goes on behind the last it has seen, and what is not there any
// more, or not yet, is said and not left out.
func TestReplay(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.storeResults("lab", "a", "b", "c")
	b.storeResults("vision", "d")
	if _, err := b.q.js.Publish(b.ctx, prefixResults+"lab.9", []byte("no JSON")); err != nil { // left out, and those behind it come
		t.Fatal(err)
	}
	b.storeResults("lab", "e")
	all, err := b.readResults(ResultOptions{})
	if err != nil || namesOf(all) != "a b c d e" || all[4].Seq != 6 {
		t.Fatalf("%q, %v", namesOf(all), err)
	}
	for want, o := range map[string]ResultOptions{
		"c d e": {From: all[1].Seq + 1},
		"d e":   {Since: all[3].At},
		"b c e": {From: 2, Project: "lab"},
		"d":     {From: 2, Project: "vision"},
		"e":     {From: 5},
		"":      {From: 7}, // the next to come
	} {
		if got, err := b.readResults(o); err != nil || namesOf(got) != want {
			t.Errorf("%+v: %q, %v; want %q", o, namesOf(got), err, want)
		}
	}
	if _, err := b.readResults(ResultOptions{From: 8}); !errors.Is(err, ErrNotYet) || !strings.Contains(err.Error(), "is 6") {
		t.Errorf("ahead of the log: %v", err)
	}
	if _, err := b.readResults(ResultOptions{From: 8, Follow: true}); !errors.Is(err, ErrNotYet) {
		t.Errorf("ahead of the log, following: %v", err)
	}
	stream, err := b.q.js.Stream(b.ctx, StreamResults)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(b.ctx, jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.readResults(ResultOptions{From: 2}); !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), "begins with 4, stored 2") {
		t.Errorf("no longer kept: %v", err)
	}
	if err := stream.Purge(b.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.readResults(ResultOptions{From: 2}); !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), "the next will be 7") {
		t.Errorf("nothing is kept: %v", err)
	}
}

// Who follows from a place is given what stands and then what comes, and the broker may go away meanwhile.
func TestReplayFollowsOverARestart(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.storeResults("lab", "a", "b")
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	come := make(chan Entry[job.Result], 8)
	b.background(func(context.Context) error {
		for e, err := range b.q.ResultEntries(ctx, ResultOptions{From: 2, Follow: true}) {
			if err != nil {
				return err
			}
			come <- e
		}
		return nil
	})
	next := func(name string, seq uint64) {
		t.Helper()
		select {
		case e := <-come:
			if e.Value.Name != name || e.Seq != seq || time.Since(e.At) > time.Hour {
				t.Errorf("%s as %d, want %s as %d", e.Value.Name, e.Seq, name, seq)
			}
		case <-time.After(patience):
			t.Fatalf("%s did not come", name)
		}
	}
	next("b", 2)
	b.broker.Stop()
	b.broker.Start()
	eventually(t, "the connection is back", b.q.nc.IsConnected)
	b.storeResults("lab", "c")
	next("c", 3)
	cancel()
}
