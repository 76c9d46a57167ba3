package fakenvml_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/telemetry/fakenvml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func functions(t *testing.T, library string) map[string]bool {
	t.Helper()
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, "nvml") {
			out[s.Name] = true
		}
	}
	return out
}

func TestLibrary(t *testing.T) {
	t.Parallel()
	whole := functions(t, fakenvml.Build(t))
	if len(whole) < 33 {
		t.Errorf("%d functions", len(whole))
	}
	without := functions(t, fakenvml.Build(t, "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetFieldValues"))
	if len(without) != len(whole)-2 || without["nvmlDeviceGetMemoryInfo_v2"] || without["nvmlDeviceGetFieldValues"] {
		t.Errorf("%d functions of %d, two left out", len(without), len(whole))
	}
}

func TestMachineIsAFolder(t *testing.T) {
	t.Parallel()
	m := fakenvml.New(t, 2)
	m.GPU(1).Processes(fakenvml.Process{PID: 77, MemoryMB: 100}, fakenvml.Process{PID: 78, MemoryMB: -1, Kind: 'G', SM: 5})
	for path, want := range map[string]string{
		"1/procs": "77 104857600 C 0\n78 -1 G 5\n", "1/mem_used": strconv.Itoa(100 << 20), "0/uuid": fakenvml.UUID(0), "count": "2",
	} {
		if got, err := os.ReadFile(m.Dir + "/" + path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	cmd := exec.Command(m.SMI, "--query-gpu=uuid,compute_cap", "--format=csv,noheader")
	cmd.Env = append(os.Environ(), m.Env()...)
	out, err := cmd.CombinedOutput()
	if want := fakenvml.UUID(0) + ", 9.0\n" + fakenvml.UUID(1) + ", 9.0\n"; err != nil || string(out) != want {
		t.Errorf("nvidia-smi: %q, %v", out, err)
	}
}
