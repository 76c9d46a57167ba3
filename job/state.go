package job

// State is where a job stands.
type State string

// The states of a job. All but Queued, Held and Running are final for the round.
const (
	Queued    State = "queued"
	Held      State = "held"
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	TimedOut  State = "timeout"
	OOMGPU    State = "oom_gpu"
	OOMHost   State = "oom_host"
	Expired   State = "expired"
	Dead      State = "dead"
)

// Final reports whether the round is over.
func (s State) Final() bool {
	switch s {
	case Queued, Held, Running, "":
		return false
	}
	return true
}

// Outcome is the verdict on one attempt.
type Outcome string

// The outcomes of an attempt.
const (
	OutcomeSucceeded   Outcome = "succeeded"
	OutcomeFailed      Outcome = "failed"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeTimeout     Outcome = "timeout"
	OutcomeOOMGPU      Outcome = "oom_gpu"
	OutcomeOOMHost     Outcome = "oom_host"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeGPUFault    Outcome = "gpu_fault"
	OutcomeMachineLost Outcome = "machine_lost"
)

// Charged reports whether an attempt that ended so counts against the user's retries. What the system did to a job
// is free of charge.
func (o Outcome) Charged() bool {
	switch o {
	case OutcomeSucceeded, OutcomeFailed, OutcomeTimeout, OutcomeOOMGPU, OutcomeOOMHost:
		return true
	}
	return false
}

// State is the state of a job whose last attempt ended so and is not tried again.
func (o Outcome) State() State {
	switch o {
	case OutcomeInterrupted, OutcomeGPUFault, OutcomeMachineLost:
		return Dead
	}
	return State(o)
}
