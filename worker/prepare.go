package worker

import (
	"fmt"

	"github.com/berthq/berth/runner"
)

// preparation is the run of an attempt, made ready while the claim is on its way to the record: the two take about as
// long as each other. What was made can be taken back without a trace.
type preparation struct {
	a   *attempt
	run *runner.Ready
	err error // why there is none
}

// prepare makes the run of an attempt ready.
func (w *Worker) prepare(a *attempt) *preparation {
	p := &preparation{a: a}
	run, err := w.runFor(a)
	if err == nil {
		p.run, err = w.runner.Prepare(w.background, run)
	}
	p.err = err
	return p
}

// drop takes back what was made, if anything was.
func (p *preparation) drop() {
	if p == nil || p.run == nil {
		return
	}
	if err := p.run.Drop(); err != nil {
		p.a.log.Warn("preparation_left_something", "err", err)
	}
}

// start gives a claimed job's run the word.
func (w *Worker) start(p *preparation) (*runner.Handle, error) {
	if p.err != nil {
		return nil, p.err
	}
	if err := w.makeCheckpoint(p); err != nil {
		p.drop()
		return nil, err
	}
	return p.run.Start(w.background, w.session().Deadline())
}

// makeCheckpoint makes the folder that the attempts of a job share, as the job's account.
func (w *Worker) makeCheckpoint(p *preparation) error {
	a := p.a
	if a.spec().IsLease() {
		return nil
	}
	dir := w.store.CheckpointDir(a.claim.Ref().String())
	if err := p.run.MakeFolder(dir); err != nil {
		return fmt.Errorf("checkpoint folder: %w", err)
	}
	account, err := w.account(a)
	if err != nil {
		return err
	}
	return giveCheckpoint(dir, account)
}
