// Command consume prints one line for each result of a Berth job: sequence, job, state, exit code, name. With -events it
// prints one for each event: sequence, what was done, project, who, job or machine.
//
//	consume                          everything that is stored, then what comes
//	consume -from 1200               from a sequence on
//	consume -since 2026-01-31T08:00:00Z
//	consume -durable mailer          go on where mailer stopped, also after a crash
//	consume -once                    end when all that is stored was read
//
// It uses the NATS client alone, to be read beside the same in other languages. Package client is shorter.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "consume:", err)
		os.Exit(1)
	}
}

// log is a stream to read, and how a message of it is printed.
type log struct {
	stream, subject string
	line            func(data []byte) (string, error)
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server := flag.String("server", env("BERTH_SERVER", nats.DefaultURL), "the broker")
	project := flag.String("project", "*", "only results of this project")
	from := flag.Uint64("from", 0, "start at this sequence of the results stream")
	since := flag.String("since", "", "start at this time, RFC 3339")
	durable := flag.String("durable", "", "a name under which the broker remembers what was read")
	once := flag.Bool("once", false, "end when all that is stored was read")
	events := flag.Bool("events", false, "events, not results")
	flag.Parse()

	what := log{"BERTH_RESULTS", "berth.results." + *project + ".>", resultLine}
	if *events {
		what = log{"BERTH_EVENTS", "berth.events.*." + *project, eventLine}
	}
	start := jetstream.ConsumerConfig{
		Durable:       *durable,
		FilterSubject: what.subject,
		AckPolicy:     jetstream.AckExplicitPolicy,
	}
	if *from > 0 {
		start.DeliverPolicy, start.OptStartSeq = jetstream.DeliverByStartSequencePolicy, *from
	} else if *since != "" {
		at, err := time.Parse(time.RFC3339, *since)
		if err != nil {
			return err
		}
		start.DeliverPolicy, start.OptStartTime = jetstream.DeliverByStartTimePolicy, &at
	}

	nc, err := nats.Connect(*server, nats.Token(os.Getenv("BERTH_TOKEN")), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := open(ctx, js, what.stream, start)
	if err != nil {
		return err
	}
	return what.read(ctx, consumer, *once)
}

// open takes up a durable consumer where it stopped, or makes one. Without a name it is gone a moment after us.
func open(ctx context.Context, js jetstream.JetStream, stream string, start jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if start.Durable != "" {
		consumer, err := js.Consumer(ctx, stream, start.Durable)
		if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return consumer, err
		}
	}
	return js.CreateConsumer(ctx, stream, start)
}

func (l log) read(ctx context.Context, consumer jetstream.Consumer, once bool) error {
	if once && consumer.CachedInfo().NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		msg, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		text, err := l.line(msg.Data())
		if err != nil {
			return fmt.Errorf("message %d: %w", meta.Sequence.Stream, err)
		}
		fmt.Printf("%d\t%s\n", meta.Sequence.Stream, text)
		// Acknowledge after the work: a crash in between delivers the result again, and never loses one.
		if err := msg.DoubleAck(ctx); err != nil {
			return err
		}
		if once && meta.NumPending == 0 {
			return nil
		}
	}
}

func resultLine(data []byte) (string, error) {
	var r job.Result
	if err := json.Unmarshal(data, &r); err != nil {
		return "", err
	}
	name := strconv.FormatUint(r.Number, 10)
	if r.Index != nil {
		name += "." + strconv.Itoa(*r.Index)
	}
	code := "-" // it never ran
	if r.Exit != nil {
		code = strconv.Itoa(r.Exit.Code)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s", name, r.State, code, r.Name), nil
}

func eventLine(data []byte) (string, error) {
	var e queue.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return "", err
	}
	return strings.Join([]string{e.Kind, e.Project, e.By, cmp.Or(e.Job, e.Machine, "-")}, "\t"), nil
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
