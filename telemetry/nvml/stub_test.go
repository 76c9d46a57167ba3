//go:build !cgo || !linux

package nvml_test

import (
	"errors"
	"testing"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/nvml"
)

func TestNotBuiltIn(t *testing.T) {
	if _, err := nvml.Open(t.Context(), nvml.Options{}); !errors.Is(err, telemetry.ErrNotBuilt) {
		t.Errorf("got %v", err)
	}
}
