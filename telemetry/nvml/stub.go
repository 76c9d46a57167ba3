//go:build !cgo || !linux

package nvml

import (
	"io"

	"github.com/berthq/berth/telemetry"
)

const built = false

// Serve needs cgo.
func Serve(io.Reader, io.Writer, string) error { return telemetry.ErrNotBuilt }
