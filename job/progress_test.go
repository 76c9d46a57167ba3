package job_test

import (
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func TestParseProgress(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"::progress 11/54 epochs": "11/54|epochs", "11/54": "11/54|", "42% of the slides": "42%|of the slides", "0.5/2 GiB\r": "0.5/2|GiB",
		"60/54 over": "54/54|over", "1/3 \x1b[31mred\x1b[0m": "1/3|[31mred[0m", "99.5%": "99.5%|",
	} {
		p, ok := job.ParseProgress(line)
		if got := p.Figures() + "|" + p.Text; !ok || got != want || p.Share() < 0 || p.Share() > 1 {
			t.Errorf("%q: %q %v, want %q", line, got, ok, want)
		}
	}
	for _, line := range []string{"", "::progress", "::progress soon", "1/0", "-1/5", "NaN/5", "1/Inf", "a/b", "11", "%"} {
		if p, ok := job.ParseProgress(line); ok {
			t.Errorf("%q is read as %+v", line, p)
		}
	}
	if p, _ := job.ParseProgress("1/2 " + strings.Repeat("ü", 500)); len([]rune(p.Text)) > 101 {
		t.Errorf("a text of %d characters", len([]rune(p.Text)))
	}
}

func FuzzParseProgress(f *testing.F) {
	f.Add("::progress 11/54 epochs")
	f.Add("1e308/1e-308 x")
	f.Fuzz(func(t *testing.T, line string) {
		p, ok := job.ParseProgress(line)
		if ok && !(p.Share() >= 0 && p.Share() <= 1) {
			t.Errorf("%q has a share of %v", line, p.Share())
		}
	})
}
