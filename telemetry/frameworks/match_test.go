package frameworks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
)

func at(i int) *int { return &i }

func TestMatch(t *testing.T) {
	t.Parallel()
	two := []telemetry.Device{
		{UUID: "GPU-A0", Index: 0, Name: "Card X", PCIBusID: "00000000:3B:00.0"},
		{UUID: "GPU-B0", Index: 3, Name: "Card Y", PCIBusID: "00000001:3B:00.0"},
	}
	mig := []telemetry.Device{
		{UUID: "MIG-1", Index: 0, Name: "MIG 1g", PCIBusID: "00000000:3B:00.0", Parent: "GPU-P"},
		{UUID: "MIG-2", Index: 0, Name: "MIG 1g", PCIBusID: "00000000:3B:00.0", Parent: "GPU-P"},
		{UUID: "GPU-C0", Index: 1, Name: "Card X", PCIBusID: "00000000:5E:00.0"},
	}
	for _, c := range []struct {
		name    string
		devices []telemetry.Device
		seen    []sighting
		want    string
	}{
		{"nothing seen", two, nil, ""},
		{"by UUID, in the devices' order", two, []sighting{{UUID: "b0"}, {UUID: "a0"}}, "GPU-A0 GPU-B0"},
		{"a stranger's UUID does not fall back to its index", two, []sighting{{UUID: "zz", Index: at(0)}}, ""},
		{"by PCI address with its domain", two, []sighting{{PCI: "0001:3b:00.0", Index: at(0)}}, "GPU-B0"},
		{"PyTorch's spelling", two, []sighting{{PCI: "0:3b:0.0"}}, "GPU-A0"},
		{"a ruined address finds nothing", two, []sighting{{PCI: "what"}, {PCI: "x:y:z"}}, ""},
		{"by the driver's index, not the place in the list", two, []sighting{{Index: at(3)}, {Index: at(1)}}, "GPU-B0"},
		{"by name", two, []sighting{{Name: "Card Y"}, {Name: "pocl"}}, "GPU-B0"},
		{"no more of a name than there are", two, []sighting{{Name: "Card X"}, {Name: "Card X"}}, "GPU-A0"},
		{"an empty sighting", two, []sighting{{}}, ""},
		{"one MIG device stands for all, not for the other card", mig, []sighting{{UUID: "MIG-2"}}, "MIG-1 MIG-2"},
		{"the parent's UUID with its address", mig, []sighting{{UUID: "P", PCI: "0:3b:0.0"}}, "MIG-1 MIG-2"},
		{"only the whole card", mig, []sighting{{PCI: "0:5e:0.0"}}, "GPU-C0"},
	} {
		if got := strings.Join(match(c.devices, c.seen), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	if awaitEnd(make(chan struct{}), time.Millisecond) {
		t.Error("a process that does not end was taken for ended")
	}
	ended := make(chan struct{})
	close(ended)
	if !awaitEnd(ended, time.Hour) {
		t.Error("an ended process was taken for stuck")
	}
}

func TestStuckProbeForbidsAnother(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	p := New(Options{Interpreter: "/no/such/python"})
	p.stuck = gone
	if _, err := p.Probe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "cannot be killed") {
		t.Errorf("error %v while the old one is there", err)
	}
	close(gone)
	if _, err := p.Probe(t.Context(), nil); err == nil || strings.Contains(err.Error(), "cannot be killed") {
		t.Errorf("error %v after the old one ended", err)
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"":                            "",
		"\n \r\n":                     "",
		"one\ntwo \n\n":               "two",
		"bar 10%\rbar 20%":            "bar 20%",
		"\xff":                        "\uFFFD",
		strings.Repeat("é", 400):      strings.Repeat("é", 300) + "…",
		"\x1b[31mred\x1b[0m\nplain\n": "plain",
	} {
		if got := lastLine(said); got != want {
			t.Errorf("lastLine(%q) = %q, want %q", said, got, want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var tl tail
	for i := range 3000 {
		fmt.Fprintf(&tl, "line %d\n", i)
	}
	if s := tl.String(); len(s) > maxTail || !strings.HasSuffix(s, "line 2999\n") {
		t.Errorf("%d bytes, ends %q", len(s), s[len(s)-20:])
	}
	fmt.Fprint(&tl, strings.Repeat("y", 2*maxTail))
	if s := tl.String(); s != strings.Repeat("y", maxTail) {
		t.Errorf("after one long write: %d bytes", len(s))
	}
}
