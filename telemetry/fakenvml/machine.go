package fakenvml

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

//go:embed testdata/nvidia-smi
var smiScript string

// Machine is a folder that says it has GPUs.
type Machine struct {
	Dir     string
	Library string // Dir/libnvidia-ml.so.1
	SMI     string // Dir/nvidia-smi
	t       testing.TB
}

// New makes a machine with that many GPUs: 24576 MiB each, idle, healthy, every gauge there. Functions named in omit
// are missing from its library.
func New(t testing.TB, gpus int, omit ...string) *Machine {
	t.Helper()
	dir := t.TempDir()
	m := &Machine{Dir: dir, Library: filepath.Join(dir, "libnvidia-ml.so.1"), SMI: filepath.Join(dir, "nvidia-smi"), t: t}
	lib, err := os.ReadFile(Build(t, omit...))
	if err != nil {
		t.Fatal(err)
	}
	write(t, m.Library, string(lib))
	write(t, m.SMI, smiScript)
	m.Set("driver", "580.65.06")
	m.Set("events", "")
	for i := range gpus {
		m.addGPU(i)
	}
	m.Set("count", strconv.Itoa(gpus))
	t.Cleanup(func() { m.Unset("hang"); m.thaw(gpus) }) // nothing may outlive its test in a hung call
	return m
}

func (m *Machine) addGPU(i int) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(m.Dir, strconv.Itoa(i)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	g := m.GPU(i)
	for attr, value := range map[string]string{
		"name": "NVIDIA Fake 24GB", "uuid": UUID(i), "cc": "9.0",
		"pci":       fmt.Sprintf("00000000:%02X:00.0", i+1),
		"mem_total": strconv.Itoa(24576 << 20), "mem_used": "0", "mem_reserved": strconv.Itoa(576 << 20),
		"util": "0", "temp": "35", "power_mw": "60000", "limit_mw": "350000", "energy_mj": "1000000",
		"throttle": "1", "ecc_unc": "0", "remap": "0 0 0 0", "recovery": "0", "procs": "", "mig": "0",
	} {
		g.Set(attr, value)
	}
}

func (m *Machine) thaw(gpus int) {
	for i := range gpus {
		m.GPU(i).Unset("hang")
	}
}

// UUID is the name of the i-th GPU of every fake machine.
func UUID(i int) string { return fmt.Sprintf("GPU-fa4e0000-0000-4000-8000-%012x", i) }

// Env makes a program started with it find this machine's library and nvidia-smi before any other.
func (m *Machine) Env() []string {
	return []string{
		"LD_LIBRARY_PATH=" + m.Dir + ":" + os.Getenv("LD_LIBRARY_PATH"),
		"PATH=" + m.Dir + ":" + os.Getenv("PATH"),
		"FAKE_NVML_DIR=" + m.Dir,
	}
}

// Set writes an attribute of the machine: count, driver, init_ret, hang, delay_us, crash. The C file lists them.
func (m *Machine) Set(attr, value string) {
	m.t.Helper()
	write(m.t, filepath.Join(m.Dir, attr), value)
}

// Unset removes one.
func (m *Machine) Unset(attr string) { _ = os.Remove(filepath.Join(m.Dir, attr)) }

// Hang makes every call into the library wait until Hang(false).
func (m *Machine) Hang(on bool) { m.Set("hang", digit(on)) }

// Crash makes the next call on a device end its process, until Crash(false).
func (m *Machine) Crash(on bool) { m.Set("crash", digit(on)) }

// XID reports an XID on a GPU; gpu -1 names none.
func (m *Machine) XID(gpu, xid int) {
	m.t.Helper()
	f, err := os.OpenFile(filepath.Join(m.Dir, "events"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d 8 %d\n", gpu, xid); err != nil {
		m.t.Fatal(err)
	}
}

func digit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
