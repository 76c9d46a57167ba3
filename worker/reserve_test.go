package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestFreeAt(t *testing.T) {
	t.Parallel()
	in := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	ends := []GPUEnd{{UUID: "d", Unknown: true}, {UUID: "a", Until: in(30)}, {UUID: "b"}, {UUID: "c", Until: in(10)}, {UUID: "e", Until: in(-5)}}
	for _, c := range []struct {
		n     int
		at    time.Time
		uuids []string
		ok    bool
	}{
		{1, noon, []string{"b"}, true},
		{2, noon, []string{"b", "e"}, true}, // over its limit: it must go any moment
		{3, in(10), []string{"b", "e", "c"}, true},
		{4, in(30), []string{"b", "e", "c", "a"}, true},
		{5, noon.Add(unknownEnd), []string{"b", "e", "c", "a", "d"}, true},
		{6, time.Time{}, nil, false},
	} {
		at, uuids, ok := FreeAt(noon, c.n, ends)
		if !at.Equal(c.at) || ok != c.ok || !cmp.Equal(uuids, c.uuids) {
			t.Errorf("FreeAt(%d) = %v %v %v, want %v %v %v", c.n, at, uuids, ok, c.at, c.uuids, c.ok)
		}
	}
}

func TestOutbids(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mine, theirs time.Duration
		want         bool
	}{
		{time.Minute, time.Hour, true},
		{50 * time.Minute, time.Hour, false}, // a sixth of the wait
		{0, 4 * time.Second, false},
		{0, 6 * time.Second, true},
		{time.Hour, time.Minute, false},
	} {
		if got := Outbids(noon, noon.Add(c.mine), noon.Add(c.theirs)); got != c.want {
			t.Errorf("free in %v against %v: outbids %v, want %v", c.mine, c.theirs, got, c.want)
		}
	}
}

func TestEndsInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, needed time.Duration
		want          bool
	}{
		{10 * time.Minute, 10 * time.Minute, true},
		{11 * time.Minute, 10 * time.Minute, false},
		{0, time.Hour, false}, // no limit: nobody knows
	} {
		if got := EndsInTime(noon, c.limit, noon.Add(c.needed)); got != c.want {
			t.Errorf("limit %v, needed in %v: %v, want %v", c.limit, c.needed, got, c.want)
		}
	}
}
