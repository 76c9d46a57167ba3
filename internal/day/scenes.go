package day

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// scene is one thread of the day. Its hour is in beats after the day's begin.
type scene struct {
	at   float64
	name string
	play func(context.Context, *Day) error
}

var scenes = []scene{
	{0, "the training", sickCard},
	{1, "the pretraining", pretraining},
	{2, "the array", array},
	{5, "the sweep", sweep},
	{8, "the pipeline", pipeline},
	{10, "the job that needs more memory", tooLittleMemory},
	{12, "the chain", chain},
	{16, "the lease", notebook},
	{18, "the stranger", stranger},
	{22, "the job for four cards", allFour},
	{28, "the bad ends", badEnds},
	{34, "the kernel experiment", deadLetter},
	{46, "the maintenance", maintenance},
	{60, "the upgrade", upgrade},
}

func pretraining(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "speech-lead", "pretrain.yaml")
	if err != nil {
		return err
	}
	d.Say("speech-lead: a long run on an H100: `berth show %s`", ref)
	return nil
}

func array(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "imaging-core", "array.yaml")
	if err != nil {
		return err
	}
	d.Say("imaging-core: 24 scans as one job, six at a time: `berth status %s`", ref)
	return nil
}

func sweep(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "serving-tuner", "sweep.yaml")
	if err != nil {
		return err
	}
	d.Say("serving-tuner: ten points of a sweep, each with its value: `berth results %s`", ref)
	return nil
}

func pipeline(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "imaging-core", "pipeline.yaml")
	if err != nil {
		return err
	}
	d.Say("imaging-core: three steps on one GPU: `berth show %s`", ref)
	return nil
}

// tooLittleMemory asks for less than it takes. The memory curve of its process reaches the promise, it ends as a program
// does whose card is full, and is run again with more.
func tooLittleMemory(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "speech-student", "oom.yaml")
	if err != nil {
		return err
	}
	d.Say("speech-student: a job that asks for too little GPU memory; it will be run again with more: `berth show %s`", ref)
	_, err = d.board.ended(ctx, ref)
	return err
}

func chain(ctx context.Context, d *Day) error {
	refs, err := d.submit(ctx, "speech-student", "chain.yaml")
	if err != nil {
		return err
	}
	d.Say("speech-student: three jobs that wait for each other: `berth explain %s`", refs[len(refs)-1])
	return nil
}

// notebook is somebody who wants a GPU in a terminal for a while.
func notebook(ctx context.Context, d *Day) error {
	const user = "vision-guest"
	held, err := d.Type(ctx, user, nil, "lease", "get", "-m", "8Gi", "-J", "notebook", "-p", "vision", "--for", "1h", "--machine", "demo-l4")
	if err != nil {
		return err
	}
	d.Say("vision-guest: holds a GPU of demo-l4 for a notebook: `berth lease ls`")
	d.wait(ctx, 30)
	_, err = d.Type(ctx, user, nil, "lease", "release", "--machine", "demo-l4", strings.TrimSpace(string(held)))
	return err
}

// stranger computes on a card without asking anybody; who needs that card has to wait.
func stranger(ctx context.Context, d *Day) error {
	const machine, pid = "demo-desk", 5_000_001
	if err := happen(d.Dir, machine, "0 foreign %d 20480 85 desk-owner blender --render", pid); err != nil {
		return err
	}
	if err := d.board.await(ctx, func() bool { return d.board.indexIs(machine, 0, "foreign") }); err != nil {
		return err
	}
	ref, err := d.one(ctx, "robotics-student", "desk.yaml")
	if err != nil {
		return err
	}
	d.Say("somebody renders on %s without asking Berth; robotics-student's job waits: `berth explain %s`, `berth gpus`", machine, ref)
	d.wait(ctx, 25)
	if err := happen(d.Dir, machine, "0 foreign %d off", pid); err != nil {
		return err
	}
	d.Say("the rendering on %s is done", machine)
	_, err = d.board.ended(ctx, ref)
	return err
}

// allFour wants a whole machine that small jobs fill: places are kept for it as they come free.
func allFour(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "vision-lead", "wide.yaml")
	if err != nil {
		return err
	}
	d.Say("vision-lead: a job for all four cards of demo-l4, while smaller ones run there: `berth explain %s`", ref)
	return nil
}

// sickCard is a training under which a card falls off the bus. The card is set aside and comes back; the job goes on
// elsewhere, from its checkpoint where it finds it.
func sickCard(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "vision-lead", "training.yaml")
	if err != nil {
		return err
	}
	d.Say("vision-lead: trains on two A100s: `berth logs %s -f`", ref)
	run, err := d.board.running(ctx, ref, 1)
	if err != nil {
		return err
	}
	d.wait(ctx, 14)
	uuid, index, err := d.cardOf(run)
	if err != nil {
		return err
	}
	if err := happen(d.Dir, run.machine, "%d lost on", index); err != nil {
		return err
	}
	if err := d.board.cardIs(ctx, run.machine, uuid, quarantined, true); err != nil {
		return err
	}
	d.Say("GPU %d of %s is lost and set aside; job %s starts again elsewhere: `berth gpus`, `berth events`", index, run.machine, ref)
	d.wait(ctx, 10)
	if err := happen(d.Dir, run.machine, "%d lost off", index); err != nil {
		return err
	}
	if err := d.board.cardIs(ctx, run.machine, uuid, quarantined, false); err != nil {
		return err
	}
	d.Say("GPU %d of %s was tested and is back", index, run.machine)
	return nil
}

const quarantined = "quarantined"

// cardOf is the first card of a run.
func (d *Day) cardOf(run entry) (uuid string, index int, err error) {
	d.board.mu.Lock()
	defer d.board.mu.Unlock()
	if len(run.devices) == 0 {
		return "", 0, fmt.Errorf("the run on %q has no GPU (it is %s)", run.machine, run.state)
	}
	g, known := d.board.card(run.machine, run.devices[0])
	if !known {
		return "", 0, fmt.Errorf("%s has announced no GPU %s", run.machine, run.devices[0])
	}
	return g.UUID, g.Index, nil
}

func badEnds(ctx context.Context, d *Day) error {
	refs, err := d.submit(ctx, "imaging-core", "ends.yaml")
	if err != nil {
		return err
	}
	d.Say("imaging-core: a missing file and a job that never ends: `berth show %s`, `berth show %s`", refs[0], refs[len(refs)-1])
	wrong, err := d.one(ctx, "vision-lead", "wrong.yaml")
	if err != nil {
		return err
	}
	d.wait(ctx, 6)
	_, err = d.Type(ctx, "vision-lead", nil, "cancel", wrong.String())
	d.Say("vision-lead: the wrong branch, cancelled: `berth events --kind cancel`")
	return err
}

// deadLetter is a job under which card after card fails. After the third it is not given a fourth.
func deadLetter(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "platform-bot", "dead.yaml")
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		run, err := d.board.running(ctx, ref, attempt)
		if err != nil {
			return err
		}
		if run.state.Final() {
			d.Say("platform-bot: under job %s one GPU after the other failed: it is %s, and the GPUs are tested again: `berth dead ls`", ref, run.state)
			return wantState(ref, run, job.Dead)
		}
		d.wait(ctx, 2)
		_, index, err := d.cardOf(run)
		if err != nil {
			return err
		}
		if err := happen(d.Dir, run.machine, "%d xid 79", index); err != nil {
			return err
		}
	}
}

func wantState(ref queue.Ref, e entry, want job.State) error {
	if e.state != want {
		return fmt.Errorf("job %s ended %s, not %s", ref, e.state, want)
	}
	return nil
}

// maintenance drains a machine, while somebody wants just that one.
func maintenance(ctx context.Context, d *Day) error {
	const machine = "demo-h100"
	if _, err := d.Type(ctx, "operator", nil, "drain", machine, "--reason", "new fans", "-q"); err != nil {
		return err
	}
	ref, err := d.one(ctx, "platform-bot", "drained.yaml")
	if err != nil {
		return err
	}
	d.Say("operator: drains %s for new fans; job %s wants just that machine: `berth machines`, `berth explain %s`", machine, ref, ref)
	d.wait(ctx, 20)
	if _, err := d.Type(ctx, "operator", nil, "undrain", machine, "-q"); err != nil {
		return err
	}
	d.Say("operator: %s is back", machine)
	_, err = d.board.ended(ctx, ref)
	return err
}

// upgrade replaces a worker under a running job.
func upgrade(ctx context.Context, d *Day) error {
	ref, err := d.one(ctx, "serving-tuner", "adopted.yaml")
	if err != nil {
		return err
	}
	run, err := d.board.running(ctx, ref, 1)
	if err != nil {
		return err
	}
	d.wait(ctx, 4)
	if err := d.Fleet.replace(run.machine); err != nil {
		return err
	}
	d.Say("operator: the worker of %s is replaced; job %s goes on under the new one: `berth logs %s -f`", run.machine, ref, ref)
	end, err := d.board.ended(ctx, ref)
	if err != nil {
		return err
	}
	if end.attempts != 1 {
		return fmt.Errorf("job %s took %d attempts", ref, end.attempts)
	}
	return wantState(ref, end, job.Succeeded)
}
