package submit

import (
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

// when are the flags about the time a job may, must or must not start.
type when struct {
	begin, deadline string
	waitTimeout     job.Duration
	hold, now       bool
}

func (f *flags) bindWhen() {
	s := f.set
	s.StringVar(&f.when.begin, "begin", "", "start no sooner than `WHEN`: 2h, 18:30, 2026-01-31 08:00")
	s.StringVar(&f.when.deadline, "deadline", "", "expire if it has not started by `WHEN`; what runs then goes on")
	s.Var(textValue{&f.when.waitTimeout, "TIME"}, "wait-timeout", "expire if it has waited so long: 30m")
	s.BoolVar(&f.when.hold, "hold", false, "queue it and keep it from starting until berth release")
	s.BoolVar(&f.when.now, "now", false, "start it at once or not at all (exit code 6)")
}

// checkWhen finds flags about time that contradict each other.
func (f *flags) checkWhen() error {
	if !f.when.now {
		return nil
	}
	for _, name := range []string{"hold", "begin", "deadline", "wait-timeout", "after-ok", "after", "dependency", "dry-run"} {
		if f.given(name) {
			return exit.Errorf(exit.Usage, "--now and --%s exclude each other: with --now it starts at once, or is not queued", name)
		}
	}
	return nil
}

// applyWhen puts the flags about time on top of a spec.
func (f *flags) applyWhen(s *job.Spec, env cli.Env) error {
	for name, into := range map[string]**time.Time{"begin": &s.Begin, "deadline": &s.Deadline} {
		text := map[string]string{"begin": f.when.begin, "deadline": f.when.deadline}[name]
		if !f.given(name) {
			continue
		}
		t, err := job.ParseMoment(text, env.Now())
		if err != nil {
			return exit.Errorf(exit.Usage, "--%s: %w", name, err)
		}
		*into = &t
	}
	put(f, "wait-timeout", &s.WaitTimeout, f.when.waitTimeout)
	put(f, "hold", &s.Hold, f.when.hold)
	return nil
}

// whenText says when a job may start, for those who look at it before it is sent.
func whenText(s job.Spec) string {
	var parts []string
	if s.Hold {
		parts = append(parts, "held until it is released")
	}
	if s.Begin != nil {
		parts = append(parts, "not before "+s.Begin.Local().Format("2006-01-02 15:04"))
	}
	if s.Deadline != nil {
		parts = append(parts, "not after "+s.Deadline.Local().Format("2006-01-02 15:04"))
	}
	if s.WaitTimeout > 0 {
		parts = append(parts, "within "+s.WaitTimeout.String())
	}
	return strings.Join(parts, ", ")
}
