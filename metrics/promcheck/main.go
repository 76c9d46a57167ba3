// Command promcheck lets Prometheus' own engine carry out the queries of a Grafana dashboard and of alert rules on what
// was scraped: promcheck DASHBOARD.json ALERTS.yaml SCRAPE.prom... Each query must be valid, and each of the dashboard must
// find something. It is a module of its own, since the engine is a large dependency that nothing else needs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "promcheck:", err)
		os.Exit(1)
	}
}

// at is when all scrapes are said to have been made; the last of twenty, a minute apart.
var at = time.Unix(1_700_000_000, 0)

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("want DASHBOARD.json ALERTS.yaml SCRAPE.prom...")
	}
	dir, err := os.MkdirTemp("", "promcheck")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for i, file := range args[2:] {
		if err := load(db, file, fmt.Sprintf("host%d:9464", i)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})})
	defer func() { _ = e.Close() }()
	return errors.Join(dashboard(e, db, args[0]), alerts(e, db, args[1]))
}

// load appends a scrape twenty times; a counter grows by its value each minute.
func load(db *tsdb.DB, file, instance string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(f)
	if err != nil {
		return err
	}
	for step := range 20 {
		when := at.Add(time.Duration(step-19) * time.Minute)
		app := db.Appender(context.Background())
		for _, family := range families {
			samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(when.UnixNano())}, family)
			if err != nil {
				return err
			}
			for _, s := range samples {
				if err := add(app, s, instance, family.GetType().String() != "GAUGE", step); err != nil {
					return err
				}
			}
		}
		if err := app.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func add(app storage.Appender, s *model.Sample, instance string, counts bool, step int) error {
	b := labels.NewBuilder(labels.EmptyLabels())
	for k, v := range s.Metric {
		b.Set(string(k), string(v))
	}
	b.Set("instance", instance).Set("job", "berth")
	v := float64(s.Value)
	if counts {
		v *= float64(step + 1)
	}
	_, err := app.Append(0, b.Labels(), int64(s.Timestamp), v)
	return err
}

func dashboard(e *promql.Engine, db *tsdb.DB, file string) error {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	var errs []error
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$machine", ".*").Replace(t.Expr)
			n, err := count(e, db, expr)
			if err == nil && n == 0 {
				err = errors.New("it finds nothing")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("panel %s: %s: %w", p.Title, expr, err))
				continue
			}
			fmt.Printf("panel %-28s %d series\n", p.Title, n)
		}
	}
	return errors.Join(errs...)
}

func alerts(e *promql.Engine, db *tsdb.DB, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	groups, problems := rulefmt.Parse(data, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	var errs []error
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			n, err := count(e, db, r.Expr)
			if err != nil {
				errs = append(errs, fmt.Errorf("alert %s: %w", r.Alert, err))
				continue
			}
			fmt.Printf("alert %-28s valid, %d firing\n", r.Alert, n)
		}
	}
	return errors.Join(errs...)
}

// count is how many series a query finds.
func count(e *promql.Engine, db *tsdb.DB, expr string) (int, error) {
	q, err := e.NewInstantQuery(context.Background(), db, nil, expr, at)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	res := q.Exec(context.Background())
	if res.Err != nil {
		return 0, res.Err
	}
	v, err := res.Vector()
	return len(v), err
}
