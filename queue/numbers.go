package queue

// numbers is a set of job numbers: a bit each, in chunks, since a janitor must remember something of each of a million
// jobs and most of them follow one another.
type numbers map[uint64]*chunk

type chunk [chunkBits / 64]uint64

const chunkBits = 4096

func (s numbers) add(n uint64) {
	c := s[n/chunkBits]
	if c == nil {
		c = &chunk{}
		s[n/chunkBits] = c
	}
	c[n%chunkBits/64] |= 1 << (n % 64)
}

func (s numbers) has(n uint64) bool {
	c := s[n/chunkBits]
	return c != nil && c[n%chunkBits/64]&(1<<(n%64)) != 0
}

// forgetBelow may keep a few numbers below n, of the chunk that n is in.
func (s numbers) forgetBelow(n uint64) {
	for at := range s {
		if (at+1)*chunkBits <= n {
			delete(s, at)
		}
	}
}
