package bench

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/internal/cli/worker"
	_ "github.com/berthq/berth/runner/shim" // the test binary is its own shim
)

// asWorker in its environment makes the test binary the worker command.
const asWorker = "BENCH_AS_WORKER"

// asBerth in its environment makes the test binary the operator's command.
const asBerth = "BENCH_AS_BERTH"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		env := cli.System()
		os.Exit(cli.Execute(context.Background(), worker.Root(env), env))
	}
	if os.Getenv(asBerth) != "" {
		env := cli.System()
		os.Exit(cli.Execute(context.Background(), operator.Root(env), env))
	}
	if order := os.Getenv(asBroker); order != "" {
		if err := runBroker(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// target reports a figure, and what became of its target. A missed one fails the benchmark only when asked to: a
// machine that does other things at the time says nothing about Berth.
func target(b *testing.B, got float64, unit, relation string, limit float64) {
	b.Helper()
	b.ReportMetric(got, unit)
	met := got <= limit
	if relation == "at least" {
		met = got >= limit
	}
	switch {
	case met:
		b.Logf("%s: %.4g, target %s %.4g: met", unit, got, relation, limit)
	case os.Getenv("BERTH_BENCH_STRICT") != "":
		b.Errorf("%s: %.4g, target %s %.4g: MISSED", unit, got, relation, limit)
	default:
		b.Logf("%s: %.4g, target %s %.4g: MISSED", unit, got, relation, limit)
	}
}
