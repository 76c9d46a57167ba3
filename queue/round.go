package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// A new round of a job is asked for by one durable message, carried out at once by who was asked, and seen to by the
// clerk that gets the message: a crash between any two steps leaves the message, and every step may be repeated.
//
//	Retry -> berth.round.<project>   (from here on it will happen)
//	      -> record: round + 1, epoch + 1, queued, by compare-and-set
//	      -> lane                    (of a group: its keeper, who holds the message until the round ends)

// ErrNotFinal says that the job has not ended, so there is nothing to do again.
var ErrNotFinal = errors.New("it has not ended")

// ErrNothingFailed says that every task of the group succeeded.
var ErrNothingFailed = errors.New("none of its tasks failed")

// roundMessage asks for a round. It says everything, so that carrying it out twice comes to the same.
type roundMessage struct {
	Job       string    `json:"job"`
	Round     int       `json:"round"`
	ResultSeq uint64    `json:"result_seq"` // of the round before
	By        string    `json:"by"`
	At        time.Time `json:"at"`

	Only  string `json:"only,omitempty"`  // tasks of a group
	Count int    `json:"count,omitempty"` // of those
	After uint64 `json:"after,omitempty"` // their results come after this one
}

// Retry runs a job that has ended once more, as its next round. Of a group: all its tasks, or only those that did not
// succeed. A task is retried as a round of its group. ErrNotFinal, ErrNothingFailed.
func (q *Queue) Retry(ctx context.Context, ref Ref, by string, onlyFailed bool) error {
	_, err := q.askAbout(ctx, verbRetry, ref, by, controlRequest{Job: ref.String(), OnlyFailed: onlyFailed})
	return err
}

// retryJob is what the verb does.
func (q *Queue) retryJob(ctx context.Context, ref Ref, j *job.Job, by string, onlyFailed bool) (job.State, error) {
	if j == nil {
		return "", fmt.Errorf("%w: its message is no job, so it can never run; `berth dead drop %s` puts it aside", ErrBadRequest, ref)
	}
	if err := checkMember(j, ref); err != nil {
		return "", err
	}
	switch {
	case j.Spec.IsLease():
		return "", fmt.Errorf("%w: a lease is not retried; get a new one", ErrBadRequest)
	case onlyFailed && (!j.IsGroup() || ref.Task):
		return "", fmt.Errorf("%w: only a group has failed tasks to choose from; leave --failed out", ErrBadRequest)
	}
	m, err := q.nextRound(ctx, ref, j, by, onlyFailed)
	if err != nil {
		return "", err
	}
	if err := q.step("retry:ask"); err != nil {
		return "", err
	}
	if err := q.publishRound(ctx, j.Project, m); err != nil {
		return "", err
	}
	if err := q.step("retry:cas"); err != nil {
		return "", err
	}
	if err := q.carryOut(ctx, j, m); err != nil {
		return "", err
	}
	q.noteDeed(ctx, Event{Kind: verbRetry, Project: j.Project, By: by, Job: ref.String()})
	return job.Queued, nil
}

// nextRound is the message for the round after the one that has ended, whose result is certain to be published.
func (q *Queue) nextRound(ctx context.Context, ref Ref, j *job.Job, by string, onlyFailed bool) (roundMessage, error) {
	whole := JobRef(ref.Number)
	rec, _, err := q.records.read(ctx, whole, true)
	switch {
	case err != nil:
		return roundMessage{}, err
	case rec == nil || !rec.State.Final():
		return roundMessage{}, fmt.Errorf("%s: %w; `berth cancel %s` ends it", whole, ErrNotFinal, whole)
	}
	seq, err := q.certify(ctx, whole, rec)
	if err != nil {
		return roundMessage{}, err
	}
	m := roundMessage{Job: whole.String(), Round: max(rec.Round, 1) + 1, ResultSeq: seq, By: by, At: q.now().UTC()}
	if !j.IsGroup() {
		return m, nil
	}
	indexes, err := q.tasksAgain(ctx, ref, j, onlyFailed)
	if err != nil {
		return m, err
	}
	state, err := q.streamState(ctx, StreamResults, "")
	m.Only, m.Count, m.After = listText(indexes), len(indexes), state.LastSeq
	return m, err
}

// certify makes sure that the result of an ended job is published, and returns its sequence.
func (q *Queue) certify(ctx context.Context, ref Ref, rec *job.Record) (uint64, error) {
	if err := q.publishEnd(ctx, ref, rec, "certify"); err != nil {
		return 0, err
	}
	s, err := q.getLast(ctx, StreamResults, resultSubject(rec.Project, ref), true)
	if errors.Is(err, ErrNotFound) {
		return 0, nil // it is no longer kept
	}
	if err != nil {
		return 0, err
	}
	return s.Seq, nil
}

// tasksAgain lists the tasks of a new round, in order, and makes sure that nobody runs one of them and that the results
// of all that ended are published.
func (q *Queue) tasksAgain(ctx context.Context, ref Ref, j *job.Job, onlyFailed bool) ([]int, error) {
	ended := map[int]endOfTask{}
	filter := prefixResults + j.Project + "." + strconv.FormatUint(ref.Number, 10) + ".*"
	err := q.eachLast(ctx, StreamResults, filter, headersOnly, func(m jetstream.Msg) {
		if index, err := strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]); err == nil {
			round, _ := strconv.Atoi(m.Headers().Get("Berth-Round")) // 0 is before the first
			ended[index] = endOfTask{job.State(m.Headers().Get(HeaderState)), round}
		}
	})
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for t := range j.AllTasks(0) {
		wanted := !ref.Task || ref.Index == t.Index
		if wanted && (!onlyFailed || ended[t.Index].state != job.Succeeded) {
			refs = append(refs, TaskRef(ref.Number, t.Index))
		}
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("%d: %w", ref.Number, ErrNothingFailed)
	}
	for from := 0; from < len(refs); from += listWindow {
		if err := q.mayRunAgain(ctx, refs[from:min(from+listWindow, len(refs))], ended); err != nil {
			return nil, err
		}
	}
	indexes := make([]int, len(refs))
	for i, r := range refs {
		indexes[i] = r.Index
	}
	return indexes, nil
}

// endOfTask is what a task's last result says.
type endOfTask struct {
	state job.State
	round int
}

func (q *Queue) mayRunAgain(ctx context.Context, refs []Ref, ended map[int]endOfTask) error {
	records, err := q.recordsOf(ctx, refs)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		rec := records[ref]
		switch {
		case rec == nil:
		case !rec.State.Final():
			return fmt.Errorf("task %s: %w; `berth cancel %s` ends it", ref, ErrNotFinal, ref)
		case rec.Result != nil && ended[ref.Index].round < rec.Result.Round:
			if err := q.publishEnd(ctx, ref, rec, "certify"); err != nil {
				return err
			}
		}
	}
	return nil
}

// listText writes indexes in array syntax: runs as ranges.
func listText(indexes []int) string {
	var b strings.Builder
	for i := 0; i < len(indexes); {
		end := i
		for end+1 < len(indexes) && indexes[end+1] == indexes[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(indexes[i]))
		if end > i {
			b.WriteString("-" + strconv.Itoa(indexes[end]))
		}
		i = end + 1
	}
	return b.String()
}

func (q *Queue) publishRound(ctx context.Context, project string, r roundMessage) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	m := newMsg(prefixRound+project, body)
	m.Header.Set(headerMsgID, "round."+r.Job+"."+strconv.Itoa(r.Round))
	_, err = q.publish(ctx, m)
	return err
}

// carryOut begins the round, if it has not begun, and dispatches a single job. It may be repeated.
func (q *Queue) carryOut(ctx context.Context, j *job.Job, m roundMessage) error {
	ref, err := ParseRef(m.Job)
	if err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	var before job.State
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		if rec == nil || !rec.State.Final() || max(rec.Round, 1) != m.Round-1 {
			before = job.Dead       // for all that is known
			return nil, errNoChange // it has begun
		}
		before = rec.State
		startOver(rec, m.At, m.ResultSeq)
		if j.IsGroup() {
			rec.Group = &job.GroupRecord{Count: m.Count, Only: m.Only, After: m.After}
		}
		return rec, nil
	})
	if err != nil {
		return err
	}
	if err := q.step("retry:letter"); err != nil {
		return err
	}
	if err := q.unbury(ctx, ref, before, m.Round); err != nil {
		return err
	}
	if err := q.step("retry:dispatch"); err != nil {
		return err
	}
	if rec == nil || j.IsGroup() || rec.State != job.Queued || rec.Round != m.Round || lastEpoch(rec) == rec.Epoch {
		return nil
	}
	return q.dispatch(ctx, q.parcelFor(j, ref, rec))
}

// lastEpoch is the epoch of the last attempt: a job returned to its lane keeps it, and its message.
func lastEpoch(rec *job.Record) int {
	if n := len(rec.Attempts); n > 0 {
		return rec.Attempts[n-1].Epoch
	}
	return 0
}

// startOver makes the record of an ended job that of one that waits, in its next round. What it learned (more memory
// after a GPU's was full, see Claim.NeedsNext) and what it was set to (a priority) stays.
func startOver(rec *job.Record, now time.Time, resultSeq uint64) {
	rec.Round = max(rec.Round, 1) + 1
	rec.Epoch++
	rec.State, rec.Reason, rec.ReasonText = job.Queued, "", ""
	rec.Cancel, rec.Run, rec.Result = nil, nil, nil
	rec.StartedAt, rec.EndedAt, rec.NotBefore = nil, nil, nil
	rec.Session, rec.Machine, rec.Devices, rec.Progress, rec.Waiting = "", "", nil, "", false
	rec.QueuedAt, rec.ResultSeq = now, resultSeq
	rec.Near = rec.Near.Anywhere()
}

// queueAgain begins the next round of a task for a round of its group. Done twice it comes to the same.
func (q *Queue) queueAgain(ctx context.Context, j *job.Job, ref Ref, group *job.Record) (*job.Record, error) {
	seq := uint64(0)
	s, err := q.getLast(ctx, StreamResults, resultSubject(j.Project, ref), true)
	if err == nil {
		seq = s.Seq
	} else if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	before := job.State("")
	rec, err := q.records.change(ctx, ref, func(rec *job.Record) (*job.Record, error) {
		switch {
		case rec == nil: // its turn never came
			rec = q.newRecord(j, ref)
			rec.Epoch++
		case rec.InRound >= group.Round, !rec.State.Final():
			before = job.Dead // for all that is known
			return nil, errNoChange
		default:
			before = rec.State
			startOver(rec, group.QueuedAt, seq)
		}
		rec.InRound = group.Round
		return rec, nil
	})
	if err != nil {
		return nil, err
	}
	if err := q.step("again:letter"); err != nil {
		return nil, err
	}
	return rec, q.unbury(ctx, ref, before, rec.Round)
}

// serveRounds sees to the rounds that were asked for, until ctx ends.
func (c *clerk) serveRounds(ctx, groupCtx context.Context) error {
	cfg := jetstream.ConsumerConfig{
		Durable: consumerRounds, FilterSubject: prefixRound + "*", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: min(clerkAckWait, c.q.opts.AckWait), MaxDeliver: -1, MaxAckPending: -1,
	}
	return c.q.consume(ctx, StreamDuties, cfg, func(m jetstream.Msg) {
		err := c.seeToRound(ctx, groupCtx, m)
		if errors.Is(err, errGarbage) || errors.Is(err, ErrNotFound) {
			c.q.log.Warn("garbage_dropped", "subject", m.Subject(), "err", err)
			_ = m.Ack() // if it gets lost it comes again and is dropped again
		} else if err != nil {
			c.q.log.Warn("round_postponed", "subject", m.Subject(), "err", err)
			giveBack(m, time.Second)
		}
	})
}

func (c *clerk) seeToRound(ctx, groupCtx context.Context, m jetstream.Msg) error {
	var r roundMessage
	if err := json.Unmarshal(m.Data(), &r); err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	ref, err := ParseRef(r.Job)
	if err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	j, err := c.q.Job(ctx, ref.Number)
	if err != nil {
		return err
	}
	if err := c.q.carryOut(ctx, j, r); err != nil {
		return err
	}
	if !j.IsGroup() {
		return m.Ack()
	}
	if !c.keep(groupCtx, m, ref.Number, j) {
		return errors.New("its keeper of the round before has not gone yet")
	}
	return nil
}

// consume hands each message of a shared durable consumer to see, until ctx ends.
func (q *Queue) consume(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, see func(jetstream.Msg)) error {
	consumer, err := q.js.CreateConsumer(ctx, stream, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		consumer, err = q.js.Consumer(ctx, stream, cfg.Durable)
	}
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(16))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, messages.Drain)
	defer stop()
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) || errors.Is(err, nats.ErrConnectionClosed) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		see(m)
	}
}
