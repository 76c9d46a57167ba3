package job_test

import (
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

// Most of what Validate refuses is in testdata/bad. Here is what a file cannot hold, and what must be let through.
func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]job.Spec{
		"markup in a name":       {Name: `<script>alert("x")</script> && 100% ünïcode 日本`},
		"200 characters":         {Name: strings.Repeat("ü", 200)},
		"priority 0":             {Priority: ptr(0)},
		"priority 100":           {Priority: ptr(100)},
		"a project of 32":        {Project: strings.Repeat("p", 32)},
		"no GPU, said":           {Resources: job.Resources{GPUs: job.CountOf(0), GPUMemory: job.MemoryOf(0), CPUs: 4}},
		"memory implies a GPU":   {Resources: job.Resources{GPUMemory: job.MemoryOf(8000)}},
		"shared":                 {Resources: job.Resources{GPUs: job.CountOf(1), Share: job.Shared, Slots: 2}},
		"a model implies a GPU":  {Model: &job.Model{IDOrPath: "m"}, Resources: job.Resources{Share: job.Shared}},
		"a variable of the host": {Env: map[string]*string{"HF_TOKEN": nil, "EMPTY": ptr("")}},
		"a long line":            {Workdir: "/" + strings.Repeat("d", 4000)},
		"retries without rules":  {Retry: &job.Retry{Retries: 3}},
	} {
		s.Command = job.Command{"true"}
		if err := job.Validate(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]job.Spec{
		"name: is 201 characters long":                   {Name: strings.Repeat("ü", 201)},
		"name: is not UTF-8 text":                        {Name: "\xff"},
		"project: \"a.b\": want 1 to 32":                 {Project: "a.b"},
		"project: \"" + strings.Repeat("p", 33):          {Project: strings.Repeat("p", 33)},
		"labels: has 65 labels":                          {Labels: manyLabels(65)},
		"time_limit: is negative":                        {TimeLimit: -1},
		"`notify` is not supported yet by this version":  {Notify: []string{"x"}},
		"secrets[0]: holds a value":                      {Secrets: []string{"X=1"}},
		"secrets[0]: BERTH_TOKEN is a variable":          {Secrets: []string{"BERTH_TOKEN"}},
		"secrets[1]: names A twice":                      {Secrets: []string{"A", "A"}},
		"secrets[0]: \"../x\": want the name":            {Secrets: []string{"../x"}},
		"secrets[0]: A is in env too":                    {Secrets: []string{"A"}, Env: map[string]*string{"A": ptr("x")}},
		"`preemptible` is not supported yet":             {Preemptible: true},
		"steps: and command are both given":              {Steps: []job.Step{{Command: job.Command{"x"}}}},
		"fail_reasons[0].match: is no regular":           {FailReasons: []job.FailReason{{Match: "("}}},
		"fail_reasons[0].match: is missing":              {FailReasons: []job.FailReason{{Reason: "x"}}},
		"want one of failed, timeout, oom_gpu, oom_host": {FailReasons: []job.FailReason{{Match: "x", Outcome: "gpu_fault"}}},
		"the limit is 256 KiB":                           {Env: map[string]*string{"BIG": ptr(strings.Repeat("x", 300<<10))}},
	} {
		s.Command = job.Command{"true"}
		if err := job.Validate(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", want, err)
		}
	}
	if err := job.Validate(job.Spec{}); err == nil || !strings.Contains(err.Error(), "command: is missing") {
		t.Errorf("an empty spec: %v", err)
	}
}

func manyLabels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[strings.Repeat("k", i+1)] = "v"
	}
	return m
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for o, want := range map[job.Outcome]struct {
		charged bool
		state   job.State
	}{
		job.OutcomeSucceeded:   {true, job.Succeeded},
		job.OutcomeFailed:      {true, job.Failed},
		job.OutcomeTimeout:     {true, job.TimedOut},
		job.OutcomeOOMGPU:      {true, job.OOMGPU},
		job.OutcomeOOMHost:     {true, job.OOMHost},
		job.OutcomeCancelled:   {false, job.Cancelled},
		job.OutcomeInterrupted: {false, job.Dead},
		job.OutcomeGPUFault:    {false, job.Dead},
		job.OutcomeMachineLost: {false, job.Dead},
	} {
		if o.Charged() != want.charged || o.State() != want.state || !o.State().Final() {
			t.Errorf("%s: charged %v, state %s (final %v); want %+v", o, o.Charged(), o.State(), o.State().Final(), want)
		}
	}
	for _, s := range []job.State{job.Queued, job.Held, job.Running, ""} {
		if s.Final() {
			t.Errorf("%q is final", s)
		}
	}
}
