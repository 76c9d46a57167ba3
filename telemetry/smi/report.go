package smi

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/berthq/berth/telemetry"
)

// report is `nvidia-smi -q -x`, as much of it as is read. Everything is text: any field of any card may say "N/A",
// "[Unknown Error]" or "ERR!" instead of a figure.
type report struct {
	Driver string      `xml:"driver_version"`
	GPUs   []gpuReport `xml:"gpu"`
}

type gpuReport struct {
	ID      string  `xml:"id,attr"`
	Name    string  `xml:"product_name"`
	UUID    string  `xml:"uuid"`
	MIG     string  `xml:"mig_mode>current_mig"`
	BusID   string  `xml:"pci>pci_bus_id"`
	Minor   string  `xml:"minor_number"`
	Memory  memory  `xml:"fb_memory_usage"`
	Util    string  `xml:"utilization>gpu_util"`
	Temp    string  `xml:"temperature>gpu_temp"`
	Powers  []place `xml:"gpu_power_readings>power_draw"`
	Average []place `xml:"gpu_power_readings>average_power_draw"`
	Instant []place `xml:"gpu_power_readings>instant_power_draw"`
	Old     []place `xml:"power_readings>power_draw"` // before driver 535
	Events  flags   `xml:"clocks_event_reasons"`
	Reasons flags   `xml:"clocks_throttle_reasons"` // before driver 535
	ECC     flags   `xml:"ecc_errors>volatile"`
	Pending string  `xml:"remapped_rows>remapped_row_pending"`
	Failure string  `xml:"remapped_rows>remapped_row_failure"`
	Action  string  `xml:"gpu_recovery_action"`

	Processes struct {
		Text string        `xml:",chardata"`
		List []processInfo `xml:"process_info"`
	} `xml:"processes"`
}

type memory struct {
	Total string `xml:"total"`
	Used  string `xml:"used"`
	Free  string `xml:"free"`
}

type place struct {
	Text string `xml:",chardata"`
}

// flags is a group of elements whose names differ between drivers.
type flags struct {
	List []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

type processInfo struct {
	PID    string `xml:"pid"`
	Type   string `xml:"type"`
	Memory string `xml:"used_memory"`
}

var errNoReport = errors.New("nvidia-smi printed no report")

// parseReport finds the XML between whatever else nvidia-smi says, before and after, and reads it.
func parseReport(out []byte) (report, error) {
	const open, end = "<nvidia_smi_log", "</nvidia_smi_log>"
	from, to := bytes.Index(out, []byte(open)), bytes.LastIndex(out, []byte(end))
	if from < 0 {
		return report{}, errNoReport
	}
	if to < from {
		return report{}, fmt.Errorf("%w: it is cut off after %d bytes", errNoReport, len(out))
	}
	var r report
	dec := xml.NewDecoder(bytes.NewReader(clean(out[from : to+len(end)])))
	dec.Strict = false // process names come with any character
	if err := dec.Decode(&r); err != nil {
		return report{}, fmt.Errorf("read nvidia-smi's report: %w", err)
	}
	return r, nil
}

// clean drops what XML does not allow: a process may be called anything.
func clean(in []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return '?'
		}
		return r
	}, bytes.ToValidUTF8(in, []byte("?")))
}

// figure reads "81559 MiB", "70.12 W", "35 C", "0 %"; nil for anything that is no figure.
func figure(text string) *float64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	switch strings.TrimSpace(unit) {
	case "GiB":
		v *= 1024
	case "KiB":
		v /= 1024
	case "mW":
		v /= 1000
	}
	return &v
}

func mib(text string) *int64 {
	v := figure(text)
	if v == nil || math.Abs(*v) > math.MaxInt32 {
		return nil
	}
	n := int64(*v)
	return &n
}

// firstFigure is the first of several places where drivers have put one figure.
func firstFigure(places ...[]place) *float64 {
	for _, list := range places {
		for _, p := range list {
			if v := figure(p.Text); v != nil {
				return v
			}
		}
	}
	return nil
}

// parseCapabilities reads `--query-gpu=uuid,compute_cap --format=csv,noheader`; what is not a capability is left out.
func parseCapabilities(out []byte) map[string]string {
	rows := csv.NewReader(bytes.NewReader(out))
	rows.FieldsPerRecord, rows.LazyQuotes, rows.TrimLeadingSpace = -1, true, true
	caps := map[string]string{}
	for {
		row, err := rows.Read()
		if err != nil {
			return caps
		}
		if len(row) == 2 && strings.HasPrefix(row[0], "GPU-") && isCapability(row[1]) {
			caps[row[0]] = row[1]
		}
	}
}

func isCapability(text string) bool {
	major, minor, ok := strings.Cut(text, ".")
	_, errMajor := strconv.ParseUint(major, 10, 8)
	_, errMinor := strconv.ParseUint(minor, 10, 8)
	return ok && errMajor == nil && errMinor == nil
}

var throttleNames = map[string]string{
	"sw_power_cap":            telemetry.ThrottlePowerCap,
	"hw_slowdown":             telemetry.ThrottleHardware,
	"sw_thermal_slowdown":     telemetry.ThrottleThermal,
	"hw_thermal_slowdown":     telemetry.ThrottleHardwareThermal,
	"hw_power_brake_slowdown": telemetry.ThrottlePowerBrake,
}
