package operator

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// replay is where the reading of a log begins, as flags say it.
type replay struct {
	follow, only bool
	since        string
	from         uint64
}

func (r *replay) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&r.follow, "follow", "f", false, "go on with new ones as they come")
	f.BoolVar(&r.only, "new", false, "only those that come from now on")
	f.StringVar(&r.since, "since", "", "only those of the last 2h, 7d, or from a `TIME` on: "+job.PastForms)
	f.Uint64Var(&r.from, "from-seq", 0, "from this sequence on, as -o wide, csv and jsonl show it: to go on, the last one + 1")
}

// begin is the moment that --since names; zero without it.
func (r *replay) begin(cmd *cobra.Command, now time.Time) (time.Time, error) {
	var given []string
	for _, name := range []string{"new", "since", "from-seq"} {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return time.Time{}, exit.Errorf(exit.Usage, "%s: each says where to begin; give one", strings.Join(given, " and "))
	}
	if cmd.Flags().Changed("from-seq") && r.from == 0 {
		return time.Time{}, exit.Errorf(exit.Usage, "--from-seq 0: sequences begin with 1")
	}
	if r.since == "" {
		return time.Time{}, nil
	}
	at, err := job.ParsePast(r.since, now)
	if err != nil {
		return time.Time{}, exit.Errorf(exit.Usage, "--since: %w", err)
	}
	return at, nil
}

// entry is one row of a log with its place. In JSON it is the value itself with its sequence in front.
type entry[T any] struct{ queue.Entry[T] }

func (e entry[T]) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(e.Value)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"seq":`+strconv.FormatUint(e.Seq, 10)+`,`), body[1:]...), nil
}

// entryTable is the view of a value with the sequence before it, for who may want to go on there.
func entryTable[T any](of table.View[T]) table.View[entry[T]] {
	columns := []table.Column[entry[T]]{{
		Title: "SEQ", Field: "seq", Wide: true, Right: true, Width: 6,
		Cell: func(e entry[T]) table.Cell { return table.Text(strconv.FormatUint(e.Seq, 10)) },
	}}
	for _, c := range of.Columns {
		raw := c.Raw
		column := table.Column[entry[T]]{
			Title: c.Title, Field: c.Field, Wide: c.Wide, Right: c.Right, Shrink: c.Shrink, Width: c.Width, Drop: c.Drop,
			Cell: func(e entry[T]) table.Cell { return c.Cell(e.Value) },
		}
		if raw != nil {
			column.Raw = func(e entry[T]) string { return raw(e.Value) }
		}
		columns = append(columns, column)
	}
	value := func(e entry[T]) any { return e }
	if of.Value != nil {
		value = func(e entry[T]) any {
			return entry[any]{queue.Entry[any]{Seq: e.Seq, At: e.At, Value: of.Value(e.Value)}}
		}
	}
	return table.View[entry[T]]{Columns: columns, Empty: of.Empty, Value: value, Name: func(e entry[T]) string { return of.Name(e.Value) }}
}
