package queue

// DemoBroker is the name of the broker of a demonstration. Whoever connects to one is told by it that nothing there is
// real.
const DemoBroker = "berth-demo"

// Demo reports whether this is a demonstration's queue.
func (q *Queue) Demo() bool { return q.nc.ConnectedServerName() == DemoBroker }
