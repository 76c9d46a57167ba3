package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// How far a job says it is stands as a bar in the list and on its page, moves while the page is open, and is gone with
// the run.
func TestProgressIsABar(t *testing.T) {
	needChromium(t)
	dir := t.TempDir()
	url := up(t, "--allow-root", "--name", "m1", "--gpu-source", "none", "--store", filepath.Join(dir, "store"))
	number := submit(t, url, fmt.Sprintf(`
name: bars
workdir: %s
command:
  - sh
  - -c
  - |
    echo "::progress 11/54 slices"
    until [ -e on ]; do sleep 0.05; done
    echo "27/54 half way" >"$BERTH_PROGRESS"
    until [ -e off ]; do sleep 0.05; done
`, dir))
	b := open(t, url)
	b.visit("/jobs")
	b.until(fmt.Sprintf(`document.querySelector('tr[data-job="%d"] [role=progressbar]')?.ariaValueNow === "20.4"`, number)) // percent
	b.visit(path(number))
	b.until(`document.querySelector(".meter [role=progressbar]")?.ariaValueNow === "11" && document.querySelector(".meter").innerText.includes("11 of 54")`)
	touch(t, filepath.Join(dir, "on"))
	b.until(`document.querySelector(".meter [role=progressbar]")?.ariaValueNow === "27" && document.querySelector(".meter").innerText.includes("half way")`)
	touch(t, filepath.Join(dir, "off"))
	b.until(`document.querySelector("main").innerText.includes("succeeded") && !document.querySelector(".meter [aria-label=Progress]")`)
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("pages logged errors: %q", bad)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
