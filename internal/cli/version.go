package cli

import (
	"fmt"
	"runtime"

	"github.com/berthq/berth/internal/version"
)

// Version is one line: Berth's version, Go's, the platform.
func Version() string {
	return fmt.Sprintf("%s (%s, %s/%s)", version.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
