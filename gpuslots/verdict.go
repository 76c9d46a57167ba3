package gpuslots

import (
	"fmt"
	"strings"

	"github.com/berthq/berth/telemetry"
)

// why is one way in which a card will not do.
type why uint8

const (
	fits why = iota
	whyModel
	whyCapability
	whyID
	whyFramework
	whyTooSmall
	whyTooFewSlots
	whyQuarantined
	whyUnread
	whyUnreadable
	whyFault
	whyExcluded
	whyExclusive
	whyShared
	whySlots
	whyDirty
	whyStray
	whyElsewhere
	whyWantsFreshReading
	whyLingering
	whyForeignPresent
	whyForeignLoad
	whyForeignMemory
	whyForeignLeft
	whyMemory
	whyMemoryForeign
	whyScore
)

// verdict is why one card will not do: facts, not yet words. Most looks at a card want no more than yes or no; they
// hand in no verdict to be filled.
type verdict struct {
	why   why
	text  string
	a, b  int64
	x, y  float64
	names []string
	procs []telemetry.Process // never changed once seen
}

// no fills the verdict, if one is wanted, and is false.
func (v *verdict) no(w why, facts verdict) bool {
	if v != nil {
		*v = facts
		v.why = w
	}
	return false
}

func (v verdict) reason() Reason {
	switch v.why {
	case whyModel, whyCapability, whyID, whyFramework, whyTooSmall, whyTooFewSlots:
		return NeverFits
	case whyQuarantined, whyUnread, whyUnreadable, whyFault:
		return GPUUnhealthy
	case whyForeignPresent, whyForeignLoad, whyForeignMemory, whyForeignLeft, whyMemoryForeign:
		return Foreign
	case whyMemory:
		return Memory
	}
	return Resources
}

// String continues "GPU 0 ...".
func (v verdict) String() string {
	switch v.why {
	case fits:
		return "would do"
	case whyModel:
		return fmt.Sprintf("is a %s", v.text)
	case whyCapability:
		if v.text == "" {
			return "does not say its compute capability"
		}
		return fmt.Sprintf("has compute capability %s", v.text)
	case whyID:
		return "is not among the GPUs asked for"
	case whyFramework:
		return fmt.Sprintf("is not seen by %s", v.text)
	case whyTooSmall:
		return fmt.Sprintf("has %d MB at most, %d MB are wanted", v.a, v.b)
	case whyTooFewSlots:
		return fmt.Sprintf("has %s, %d are wanted", count(int(v.a), "slot"), v.b)
	case whyQuarantined:
		return fmt.Sprintf("is quarantined (%s)", v.text)
	case whyUnread:
		return "has not been read yet"
	case whyUnreadable:
		return fmt.Sprintf("cannot be read (%s)", v.text)
	case whyFault:
		return fmt.Sprintf("is faulty (%s)", v.text)
	case whyExcluded:
		return "is excluded for this job"
	case whyExclusive:
		return fmt.Sprintf("is held by run %s alone", v.text)
	case whyShared:
		return fmt.Sprintf("is shared by run %s", strings.Join(v.names, ", "))
	case whySlots:
		return fmt.Sprintf("has %d of %s free, %d wanted", v.a, count(int(v.x), "slot"), v.b)
	case whyDirty:
		return fmt.Sprintf("is not clean (%s)", v.text)
	case whyStray:
		return fmt.Sprintf("is not clean (process %d of ended run %s still holds memory)", v.a, v.text)
	case whyElsewhere:
		return fmt.Sprintf("is held by another worker of this machine%s", named(" (run ", v.text, ")"))
	case whyWantsFreshReading:
		return "has just been left; waiting for a reading"
	case whyLingering:
		return fmt.Sprintf("has just been left and %d MB are not free yet", v.a)
	case whyForeignPresent:
		return fmt.Sprintf("is used by %s", nameProcesses(v.procs, v.a))
	case whyForeignLoad:
		return fmt.Sprintf("is used to %.0f %% (limit %.0f %%) by %s", v.x, v.y, nameProcesses(v.procs, v.a))
	case whyForeignMemory:
		return fmt.Sprintf("has %.0f %% of its memory (limit %.0f %%) taken by %s", v.x, v.y, nameProcesses(v.procs, v.a))
	case whyForeignLeft:
		return fmt.Sprintf("was left by a foreign process %.1f s ago (settles for %.0f s)", v.x, v.y)
	case whyMemory:
		return fmt.Sprintf("has %d MB free of what is not promised, %d MB are wanted", v.a, v.b)
	case whyMemoryForeign:
		return fmt.Sprintf("has %d MB free, %d MB are wanted; %s", v.a, v.b, fmt.Sprintf("%.0f MB are used by %s", v.x, nameProcesses(v.procs, int64(v.y))))
	case whyScore:
		return fmt.Sprintf("scores %.2f, below the limit of %.2f", v.x, v.y)
	}
	return fmt.Sprintf("will not do (%d)", v.why)
}

// nameProcesses names who is there: "python (pid 4711, anna, 3000 MB)". unseenMB is memory that is used while no
// process owns up to it, as in a container that sees no other process.
func nameProcesses(procs []telemetry.Process, unseenMB int64) string {
	const shown = 3
	var names []string
	for i, p := range procs {
		if i == shown {
			names = append(names, fmt.Sprintf("%d more", len(procs)-i))
			break
		}
		facts := []string{fmt.Sprintf("pid %d", p.PID)}
		if p.User != "" {
			facts = append(facts, p.User)
		}
		if p.MemoryMB != nil {
			facts = append(facts, fmt.Sprintf("%d MB", *p.MemoryMB))
		}
		names = append(names, fmt.Sprintf("%s (%s)", orUnknown(commandName(p)), strings.Join(facts, ", ")))
	}
	if len(names) == 0 {
		return fmt.Sprintf("processes that cannot be seen from here (%d MB)", unseenMB)
	}
	return strings.Join(names, ", ")
}

func orUnknown(s string) string {
	if s == "" {
		return "a process"
	}
	return s
}

func named(before, name, after string) string {
	if name == "" {
		return ""
	}
	return before + name + after
}
