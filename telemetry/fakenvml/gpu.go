package fakenvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// GPU is one GPU of a machine, or one MIG device of a GPU.
type GPU struct {
	machine *Machine
	dir     string
}

// Process is one line of a GPU's process list. The PID should be a real one: what reads the list asks /proc.
type Process struct {
	PID      int
	MemoryMB int64 // -1: the driver does not say
	Kind     byte  // 'C' compute (default), 'G' graphics, 'M' MPS
	SM       int   // per cent; -1: the driver does not say
}

// GPU is the i-th GPU.
func (m *Machine) GPU(i int) *GPU {
	return &GPU{machine: m, dir: filepath.Join(m.Dir, strconv.Itoa(i))}
}

// MIG cuts the GPU up and is its k-th instance, with that much memory.
func (g *GPU) MIG(k int, memoryMB int64) *GPU {
	g.machine.t.Helper()
	part := &GPU{machine: g.machine, dir: filepath.Join(g.dir, "mig"+strconv.Itoa(k))}
	if err := os.MkdirAll(part.dir, 0o755); err != nil {
		g.machine.t.Fatal(err)
	}
	part.Set("mem_total", strconv.FormatInt(memoryMB<<20, 10))
	part.Set("name", "NVIDIA Fake 24GB MIG 1g")
	part.Set("procs", "")
	part.Set("gi", strconv.Itoa(k+1))
	part.Set("ci", "0")
	part.Set("uuid", fmt.Sprintf("MIG-fa4e0000-0000-4000-8000-%s%02d", filepath.Base(g.dir), k))
	g.Set("mig", "1")
	return part
}

// Set writes an attribute; the C file lists them.
func (g *GPU) Set(attr, value string) {
	g.machine.t.Helper()
	write(g.machine.t, filepath.Join(g.dir, attr), value)
}

// Unset removes an attribute: the card does not have that gauge.
func (g *GPU) Unset(attr string) { _ = os.Remove(filepath.Join(g.dir, attr)) }

// Util sets the utilisation, per cent.
func (g *GPU) Util(percent int) { g.Set("util", strconv.Itoa(percent)) }

// MemoryUsed sets the used memory, MiB; Processes sums it up by itself.
func (g *GPU) MemoryUsed(mb int64) { g.Set("mem_used", strconv.FormatInt(mb<<20, 10)) }

// Processes sets the process list, and the used memory to their sum.
func (g *GPU) Processes(list ...Process) {
	g.machine.t.Helper()
	var lines strings.Builder
	var sum int64
	for _, p := range list {
		kind, bytes := p.Kind, p.MemoryMB<<20
		if kind == 0 {
			kind = 'C'
		}
		if p.MemoryMB < 0 {
			bytes = -1
		} else {
			sum += p.MemoryMB
		}
		fmt.Fprintf(&lines, "%d %d %c %d\n", p.PID, bytes, kind, p.SM)
	}
	g.Set("procs", lines.String())
	g.MemoryUsed(sum)
}

// Lose makes every call on the GPU answer "GPU is lost".
func (g *GPU) Lose() { g.Set("ret", "15") }

// Return makes it answer again.
func (g *GPU) Return() { g.Set("ret", "0") }

// Hang makes every call on this GPU alone wait until Hang(false).
func (g *GPU) Hang(on bool) { g.Set("hang", digit(on)) }
