package metrics

import "sync"

const (
	// mostProjects is how many projects have series of their own.
	mostProjects = 100
	// mostLanes is how many lanes have.
	mostLanes = 200
	// other is the label of the rest. No project can be named so.
	other = "(other)"
)

// names lets the first few through and calls the rest "(other)": who makes a project a day must not fill a Prometheus.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newNames() *names { return &names{seen: map[string]bool{}} }

func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen[name]:
		return name
	case len(n.seen) >= mostProjects:
		return other
	}
	n.seen[name] = true
	return name
}
