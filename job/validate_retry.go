package job

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// retryable are the outcomes a rule may name; what the system did to a job is tried again without being asked.
var retryable = []string{
	string(OutcomeFailed), string(OutcomeTimeout), string(OutcomeOOMGPU), string(OutcomeOOMHost),
}

func (s Spec) checkRetry(ps *problems) {
	r := s.Retry
	if r == nil {
		return
	}
	if r.Retries < 0 || r.Retries > maxRetries {
		ps.add("retry.retries", "%d: want 0 to %d", r.Retries, maxRetries)
	}
	if b := r.Backoff; b != nil {
		if b.Initial < 0 || b.Max < 0 {
			ps.add("retry.backoff", "is negative")
		}
		if b.Max > 0 && b.Initial > b.Max {
			ps.add("retry.backoff", "begins with %s, above its max of %s", b.Initial, b.Max)
		}
		if b.Factor != 0 && (b.Factor < 1 || b.Factor > 1000) {
			ps.add("retry.backoff.factor", "%v: want 1 to 1000", b.Factor)
		}
	}
	if r.Resume && len(s.Steps) == 0 {
		ps.add("retry.resume", "is for a pipeline: a job without steps begins anew")
	}
	for i, rule := range r.On {
		checkRule(ps, indexed("retry.on", i), rule)
		if slices.Contains(r.NeverOn, rule) {
			ps.add(indexed("retry.on", i), "%s is in never_on too", rule)
		}
	}
	for i, rule := range r.NeverOn {
		checkRule(ps, indexed("retry.never_on", i), rule)
	}
}

func checkRule(ps *problems, path, rule string) {
	if code, ok := strings.CutPrefix(rule, "exit:"); ok {
		if n, err := strconv.Atoi(code); err != nil || n < 1 || n > 255 {
			ps.add(path, "%s: want exit:1 to exit:255", quoted(rule))
		}
		return
	}
	if !slices.Contains(retryable, rule) {
		ps.add(path, "%s: want one of %s or exit:N%s", quoted(rule), strings.Join(retryable, ", "), didYouMean(rule, retryable))
	}
}

// The limits of a job's own rules: they are tried on every line of 64 KiB.
const (
	maxFailReasons = 32
	maxMatchLength = 500
)

func (s Spec) checkFailReasons(ps *problems) {
	if len(s.FailReasons) > maxFailReasons {
		ps.add("fail_reasons", "has %d rules, at most %d are allowed", len(s.FailReasons), maxFailReasons)
	}
	for i, rule := range s.FailReasons {
		at := indexed("fail_reasons", i)
		switch _, err := regexp.Compile(rule.Match); {
		case rule.Match == "":
			ps.add(at+".match", "is missing: want a regular expression such as \"lost the licence server\"")
		case len(rule.Match) > maxMatchLength:
			ps.add(at+".match", "is %d bytes long, at most %d are allowed", len(rule.Match), maxMatchLength)
		case err != nil:
			ps.add(at+".match", "is no regular expression: %s", err)
		}
		if rule.Reason != "" {
			checkText(ps, at+".reason", rule.Reason, MaxNameLength)
		}
		checkChoice(ps, at+".outcome", string(rule.Outcome), retryable)
	}
}
