// Command consume prints one line for each result of a Berth job: sequence, job, state, exit code, name.
//
//	consume                          everything that is stored, then what comes
//	consume -from 1200               from a sequence on
//	consume -since 2026-01-31T08:00:00Z
//	consume -durable mailer          go on where mailer stopped, also after a crash
//	consume -once                    end when all that is stored was read
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "consume:", err)
		os.Exit(1)
	}
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
	flag.Parse()

	start := jetstream.ConsumerConfig{
		Durable:       *durable,
		FilterSubject: "berth.results." + *project + ".>",
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
	consumer, err := open(ctx, js, start)
	if err != nil {
		return err
	}
	return read(ctx, consumer, *once)
}

// open takes up a durable consumer where it stopped, or makes one. Without a name it is gone a moment after us.
func open(ctx context.Context, js jetstream.JetStream, start jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if start.Durable != "" {
		consumer, err := js.Consumer(ctx, "BERTH_RESULTS", start.Durable)
		if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return consumer, err
		}
	}
	return js.CreateConsumer(ctx, "BERTH_RESULTS", start)
}

func read(ctx context.Context, consumer jetstream.Consumer, once bool) error {
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
		var result job.Result
		if err := json.Unmarshal(msg.Data(), &result); err != nil {
			return fmt.Errorf("result %d: %w", meta.Sequence.Stream, err)
		}
		fmt.Println(line(meta.Sequence.Stream, result))
		// Acknowledge after the work: a crash in between delivers the result again, and never loses one.
		if err := msg.DoubleAck(ctx); err != nil {
			return err
		}
		if once && meta.NumPending == 0 {
			return nil
		}
	}
}

func line(sequence uint64, r job.Result) string {
	name := strconv.FormatUint(r.Number, 10)
	if r.Index != nil {
		name += "." + strconv.Itoa(*r.Index)
	}
	code := "-" // it never ran
	if r.Exit != nil {
		code = strconv.Itoa(r.Exit.Code)
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", sequence, name, r.State, code, r.Name)
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
