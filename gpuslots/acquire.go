package gpuslots

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/job"
)

// Request asks for a place.
type Request struct {
	Holder  string // the run's id; names it in the books, the locks and every sentence about it
	Req     job.Requirements
	Now     time.Time // zero: the pool's clock
	Avoid   []string  // UUIDs to be taken last: where the job ran out of memory before
	Prefer  []string  // UUIDs to be taken first: where the job would rather be
	Exclude []string  // UUIDs not to be taken at all: where the job met a fault
}

// CanEver says whether this machine could run it with everything free, by the exact numbers: nil, or a Refusal
// NeverFits. Quarantined cards count, they come back.
func (p *Pool) CanEver(req job.Requirements) error {
	w, err := newWish(Request{Req: req}, time.Time{})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.canEver(&w)
}

func (p *Pool) canEver(w *wish) error {
	if err := p.everMachine(w); err != nil || w.req.GPUs == 0 {
		return err
	}
	fit := 0
	for _, c := range p.cards {
		if p.ever(c, w, nil) {
			fit++
		}
	}
	if fit >= w.req.GPUs {
		return nil
	}
	cards := p.refusedBy(func(c *card, v *verdict) bool { return p.ever(c, w, v) })
	return &Refusal{Reason: NeverFits, need: w.need(), fits: fit, cards: cards, has: len(p.cards), where: orThis(p.opts.Machine)}
}

// refusedBy collects the verdicts of the cards that are refused.
func (p *Pool) refusedBy(look func(c *card, v *verdict) bool) []cardRefusal {
	refused := p.refused[:0]
	var v verdict
	for _, c := range p.cards {
		if !look(c, &v) {
			refused = append(refused, cardRefusal{&c.device, v})
		}
	}
	p.refused = refused
	return slices.Clone(refused)
}

// Suitable lists the cards in service that could serve the requirements if they were free; fewer than it needs when the
// machine cannot.
func (p *Pool) Suitable(req job.Requirements) ([]string, error) {
	w, err := newWish(Request{Req: req}, time.Time{})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.everMachine(&w); err != nil {
		return nil, err
	}
	var uuids []string
	for _, c := range p.cards {
		if c.quarantined == "" && p.ever(c, &w, nil) {
			uuids = append(uuids, c.device.UUID)
		}
	}
	return uuids, nil
}

func (p *Pool) keys() string {
	const shown = 16
	var keys []string
	for i, c := range p.cards {
		if i == shown {
			keys = append(keys, fmt.Sprintf("and %d more", len(p.cards)-i))
			break
		}
		keys = append(keys, c.device.Key())
	}
	return strings.Join(keys, " ")
}

// Room says whether it could start now and the score, 0..1, of the place it would get (1 without GPUs). The error is
// a Refusal that says why not. Nothing is changed.
func (p *Pool) Room(req job.Requirements, now time.Time) (float64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, score, err := p.place(Request{Req: req}, p.at(now))
	return score, err
}

// place is the cards that the requirements would get, and their score.
func (p *Pool) place(r Request, now time.Time) ([]*card, float64, error) {
	w, err := newWish(r, now)
	if err != nil {
		return nil, 0, err
	}
	chosen, err := p.choose(&w)
	if err != nil {
		return nil, 0, err
	}
	if len(chosen) == 0 {
		return nil, 1, nil
	}
	return chosen, ScoreGang(p.scores(chosen, now)), nil
}

// Bid is what a machine offers for a job.
type Bid struct {
	Score     float64 // of the place, 0..1
	WholeLeft int     // GPUs that would still be wholly free
	Priority  int     // of the pull, 0 (best) to 9
}

const cpuJobOnGPUMachine = 3

// Bid is Room with the priority at which this machine should ask for such a job.
func (p *Pool) Bid(req job.Requirements, now time.Time) (Bid, error) {
	return p.BidFor(Request{Req: req, Now: now})
}

// BidFor is Bid for a request that avoids or excludes some cards.
func (p *Pool) BidFor(r Request) (Bid, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	req, now := r.Req, p.at(r.Now)
	chosen, score, err := p.place(r, now)
	if err != nil {
		return Bid{}, err
	}
	bid := Bid{Score: score, WholeLeft: p.wholeFree(now, chosen)}
	bid.Priority = PullPriority(bid.Score, bid.WholeLeft)
	if req.GPUs == 0 && len(p.cards) == 0 {
		bid.Priority = 0
	} else if req.GPUs == 0 { // its CPUs are needed beside the GPUs: a machine without any goes first
		bid.Priority = cpuJobOnGPUMachine
	}
	return bid, nil
}

// wholeFree counts the cards that an exclusive job could have once the chosen ones are taken.
func (p *Pool) wholeFree(now time.Time, chosen []*card) int {
	w := wish{now: now, slots: 1}
	n := 0
	for _, c := range p.cards {
		if p.look(c, &w, nil) && !slices.Contains(chosen, c) {
			n++
		}
	}
	return n
}

func (p *Pool) scores(cards []*card, now time.Time) []float64 {
	scores := make([]float64, len(cards))
	for i, c := range cards {
		scores[i] = p.score(c, now)
	}
	return scores
}

func (p *Pool) at(now time.Time) time.Time {
	if now.IsZero() {
		return p.opts.Now()
	}
	return now
}

// choose picks the cards for the wish, best first; none for a wish without GPUs.
func (p *Pool) choose(w *wish) ([]*card, error) {
	if err := p.everMachine(w); err != nil {
		return nil, err
	}
	if p.draining {
		return nil, p.orNever(w, refuse(Draining, "%s is draining: it finishes what runs and takes nothing new", orThis(p.opts.Machine)))
	}
	if err := p.host.room(&w.req); err != nil {
		return nil, p.orNever(w, err)
	}
	if w.req.GPUs == 0 {
		return nil, nil
	}
	fitting, cands := p.fitting[:0], p.cands[:0]
	for i, c := range p.cards {
		if p.look(c, w, nil) {
			fitting = append(fitting, c)
			cands = append(cands, Candidate{})
			p.candidate(c, w, &cands[len(cands)-1])
		} else if len(fitting)+len(p.cards)-i-1 < w.req.GPUs {
			break // the rest would not be enough
		}
	}
	p.fitting, p.cands = fitting, cands
	picked := Choose(cands, w.req.GPUs, p.opts.Placement, w.req.Balanced)
	if picked == nil {
		return nil, p.refusal(w)
	}
	chosen := make([]*card, len(picked))
	for i, at := range picked {
		chosen[i] = fitting[at]
	}
	return chosen, nil
}

// orNever is the stronger no of canEver, if there is one. Asked only when there is no room: that is the rarer case.
func (p *Pool) orNever(w *wish, no error) error {
	if err := p.canEver(w); err != nil {
		return err
	}
	return no
}

// refusal finds the words for what choose has found. Of each card it learns whether it could ever do, so that canEver
// need not look at all of them again to give the same answer.
func (p *Pool) refusal(w *wish) error {
	cards := p.refusedBy(func(c *card, v *verdict) bool { return p.look(c, w, v) })
	never, fits := 0, len(p.cards)-len(cards)
	for i := range cards {
		if cards[i].v.reason() == NeverFits {
			never++
		}
	}
	if len(p.cards)-never < w.req.GPUs {
		return p.canEver(w)
	}
	if fits >= w.req.GPUs {
		return refuse(Memory, "needs %s; %s would do, but the free memory of no %d of them is within %.0f %% of each other",
			w.need(), count(fits, "GPU"), w.req.GPUs, 100*(1-balanceRatio))
	}
	return summarise(w.need(), fits, cards)
}

// TryAcquire takes a place at once or says why there is none (a Refusal): all the GPUs of a gang, the CPUs and the
// host memory, or nothing. It never waits. The caller sees to it that the reading is fresh: see Stale.
func (p *Pool) TryAcquire(r Request) (*Allocation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.at(r.Now)
	if r.Holder == "" {
		return nil, errors.New("a request for GPUs needs a holder")
	}
	if p.held[r.Holder] != nil {
		return nil, fmt.Errorf("run %s %w", r.Holder, ErrHolderBusy)
	}
	w, err := newWish(r, now)
	if err != nil {
		return nil, err
	}
	for {
		chosen, err := p.choose(&w)
		if err != nil {
			return nil, err
		}
		locks, clash, err := p.lock(chosen, &w, r.Holder)
		if err != nil {
			return nil, err
		}
		if clash { // somebody else's since the last reading: choose again without it
			continue
		}
		return p.grant(r, &w, chosen, locks), nil
	}
}

// grant enters the allocation into the books.
func (p *Pool) grant(r Request, w *wish, chosen []*card, locks []*gpuLock) *Allocation {
	p.seq++
	a := &Allocation{
		ID: fmt.Sprintf("%s#%d", r.Holder, p.seq), Holder: r.Holder, Method: string(p.opts.Placement),
		pool: p, req: r.Req, since: w.now, locks: locks,
	}
	for _, l := range locks {
		a.LockFiles = append(a.LockFiles, l.file)
	}
	for i, c := range chosen {
		score := p.score(c, w.now)
		a.Devices = append(a.Devices, c.device)
		a.Scores = append(a.Scores, score)
		a.Details = append(a.Details, detail(c, score))
		h := p.newHold(c, w, r.Holder)
		if len(locks) > 0 {
			h.locks = locks[i].slots
		}
		c.add(h)
		a.holds = append(a.holds, h)
		c.said = p.digest(c, w.now)
	}
	p.host.take(&a.req)
	p.held[r.Holder] = a
	return a
}

func (p *Pool) newHold(c *card, w *wish, holder string) *hold {
	h := &hold{holder: holder, exclusive: !w.shared, slots: c.slots, promiseMB: w.needMB, since: w.now, measured: new(int64)}
	if w.shared {
		h.slots = w.slots
		if w.needMB == 0 {
			h.shareMB = p.share(c, w.slots)
		}
	}
	return h
}

func detail(c *card, score float64) job.GPUDetail {
	return job.GPUDetail{
		Index: c.device.Index, UUID: c.device.UUID, Name: c.device.Name,
		MemoryFreeMB: freeOf(c), UtilizationPercent: c.util, AvailabilityScore: &score,
	}
}

// freeOf is the measured free memory, as far as it is known.
func freeOf(c *card) *int64 {
	switch {
	case c.freeMB != nil:
		return c.freeMB
	case c.usedMB != nil && c.totalMB > 0:
		free := max(0, c.totalMB-*c.usedMB)
		return &free
	}
	return nil
}
