package frameworks_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/frameworks"
)

// leavesMark makes a package write one byte each time it is imported.
const leavesMark = `
import os
with open(os.environ["SITE"] + "/marks", "a") as f: f.write("x")
`

func (s site) marks(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "marks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("x"))
}

func (s site) cachedProbe(t *testing.T, devices []telemetry.Device) frameworks.Seen {
	t.Helper()
	p := s.prober(t, func(o *frameworks.Options) { o.Cache = filepath.Join(s.dir, "store", "frameworks.json") })
	r, err := p.Probe(t.Context(), devices)
	if err != nil {
		t.Fatal(err)
	}
	return r.Frameworks[frameworks.Torch]
}

func TestCompleteAnswersAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"torch": leavesMark + torchSees})
	first, again := s.cachedProbe(t, cards()), s.cachedProbe(t, cards())
	if first.Cached || !again.Cached || s.marks(t) != 1 {
		t.Fatalf("cached %v then %v, imported %d times; want once", first.Cached, again.Cached, s.marks(t))
	}
	if again.Version != first.Version || strings.Join(again.UUIDs, " ") != strings.Join(first.UUIDs, " ") {
		t.Errorf("kept %+v, was %+v", again, first)
	}

	updated := cards()
	updated[0].Driver, updated[1].Driver = "580.1", "580.1"
	if seen := s.cachedProbe(t, updated); seen.Cached {
		t.Error("another driver, but the old answer")
	}
	if seen := s.cachedProbe(t, cards()[:1]); seen.Cached {
		t.Error("other GPUs, but the old answer")
	}
	s.write(t, "torch.py", leavesMark+torchSees+"\n__version__ = '3.0'\n")
	if seen := s.cachedProbe(t, cards()); seen.Cached || seen.Version != "3.0" {
		t.Errorf("another torch, but the old answer: %+v", seen)
	}
}

func TestShortAnswersAreAskedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"torch": leavesMark + "__version__ = '1'\nclass version: cuda = None"})
	s.cachedProbe(t, cards())
	if seen := s.cachedProbe(t, cards()); seen.Cached || s.marks(t) != 2 {
		t.Errorf("cached %v, imported %d times; want twice", seen.Cached, s.marks(t))
	}
}

func TestRuinedStoreIsWrittenAnew(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"garbage": "\x00\xff", "newer": `{"version": 9, "answers": {}}`, "empty": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{"torch": torchSees})
			if err := os.Mkdir(filepath.Join(s.dir, "store"), 0o700); err != nil {
				t.Fatal(err)
			}
			s.write(t, "store/frameworks.json", text)
			if seen := s.cachedProbe(t, cards()); seen.Cached || seen.Err != "" {
				t.Errorf("first: %+v", seen)
			}
			if seen := s.cachedProbe(t, cards()); !seen.Cached {
				t.Error("the answer was not kept")
			}
		})
	}
}
