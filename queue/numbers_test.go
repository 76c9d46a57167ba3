package queue

import "testing"

func TestNumbers(t *testing.T) {
	t.Parallel()
	s := numbers{}
	in := []uint64{1, 2, 63, 64, 65, chunkBits - 1, chunkBits, 5 * chunkBits, 1 << 40}
	for _, n := range in {
		s.add(n)
	}
	for _, n := range in {
		if !s.has(n) {
			t.Errorf("%d is lost", n)
		}
	}
	for _, n := range []uint64{0, 3, 62, 66, chunkBits + 1, 4 * chunkBits, 1<<40 + 1} {
		if s.has(n) {
			t.Errorf("%d was never added", n)
		}
	}
	s.forgetBelow(chunkBits)
	if s.has(1) || !s.has(chunkBits) || len(s) != 3 {
		t.Errorf("after forgetting those below %d: %d chunks", chunkBits, len(s))
	}
}
