package job

import "time"

// Kind says what a job is: most run a command.
type Kind string

// KindLease is a job that runs nothing: it holds GPUs for a person or a script until it is released, expires, or the
// process it names ends.
const KindLease Kind = "lease"

// DefaultLease is how long a lease lasts that names no time.
const DefaultLease = Duration(8 * time.Hour)

// Lease says how long the GPUs are held, beyond "until they are released".
type Lease struct {
	For     *Duration `json:"for,omitempty"`     // absent: 8h; 0s: it does not expire
	Process *Process  `json:"process,omitempty"` // the lease ends with it
	Asker   *Process  `json:"asker,omitempty"`   // who waits for it: nothing is given to somebody who has gone
}

// Process names one process of one machine since its boot: a pid alone may be somebody else's by now.
type Process struct {
	PID   int    `json:"pid"`
	Start int    `json:"start"` // clock ticks after boot, field 22 of /proc/<pid>/stat
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

// LeaseRecord is what a lease's record knows beside a job's.
type LeaseRecord struct {
	HeldAt  *time.Time  `json:"held_at,omitempty"` // since then the GPUs are its holder's
	Until   *time.Time  `json:"until,omitempty"`   // absent: it does not expire
	GPUs    []LeasedGPU `json:"gpus,omitempty"`    // kept after the end, for the log
	Release *Cancel     `json:"release,omitempty"` // the wish to end it
}

// LeasedGPU is one device of a lease.
type LeasedGPU struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"`
}

// IsLease reports whether the job holds GPUs instead of running something.
func (s Spec) IsLease() bool { return s.Kind == KindLease }

// LeaseTerm is how long a lease lasts at most; 0 is without end.
func (s Spec) LeaseTerm() time.Duration {
	if s.Lease == nil || s.Lease.For == nil {
		return DefaultLease.Std()
	}
	return s.Lease.For.Std()
}

// checkLease refuses what makes no sense for a job that runs nothing.
func (s Spec) checkLease(ps *problems) {
	checkChoice(ps, "kind", string(s.Kind), []string{string(KindLease)})
	if !s.IsLease() {
		if s.Lease != nil {
			ps.add("lease", "is for kind: lease; this job runs a command")
		}
		return
	}
	for _, f := range []struct {
		path  string
		given bool
	}{
		{"command", len(s.Command) > 0}, {"array", s.Array != ""}, {"matrix", len(s.Matrix) > 0}, {"retry", s.Retry != nil},
	} {
		if f.given {
			ps.add(f.path, "is for a job that runs something; a lease only holds GPUs")
		}
	}
	if s.TimeLimit != 0 {
		ps.add("time_limit", "is for a job that runs something: give a lease `lease: {for: %s}`", s.TimeLimit)
	}
	if n, exact := s.Resources.GPUs.Value(); exact && n == 0 || s.Resources.GPUs.IsZero() && !s.impliesGPUs() {
		ps.add("resources.gpus", "a lease holds GPUs: want 1 or more")
	}
	if s.Lease == nil {
		return
	}
	if s.Lease.For != nil && *s.Lease.For < 0 {
		ps.add("lease.for", "is negative")
	}
	s.Lease.Process.check(ps, "lease.process")
	s.Lease.Asker.check(ps, "lease.asker")
}

func (p *Process) check(ps *problems, path string) {
	if p == nil {
		return
	}
	if p.PID <= 0 || p.Start < 0 || p.Boot == "" {
		ps.add(path, "want pid, start and boot of a process, as berth lease get --pid writes them")
	}
}
