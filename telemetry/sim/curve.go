package sim

import (
	"fmt"
	"sort"
	"strconv"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/berthq/berth/job"
)

// Curve is a value over a process's age: constant before the first point and after the last, straight between two.
// In YAML a single value, or a list of {at: 10s, value: 20Gi}.
type Curve []Point

// Point is one corner of a curve. A size is in MiB.
type Point struct {
	At    time.Duration
	Value float64
}

// At is the curve's value; false for an empty curve.
func (c Curve) At(age time.Duration) (float64, bool) {
	if len(c) == 0 {
		return 0, false
	}
	next := sort.Search(len(c), func(i int) bool { return c[i].At > age })
	if next == 0 {
		return c[0].Value, true
	}
	from := c[next-1]
	if next == len(c) {
		return from.Value, true
	}
	part := float64(age-from.At) / float64(c[next].At-from.At)
	return from.Value + part*(c[next].Value-from.Value), true
}

// UnmarshalYAML reads both forms.
func (c *Curve) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		v, err := value(node.Value)
		*c = Curve{{Value: v}}
		return err
	}
	var corners []struct {
		At    job.Duration `yaml:"at"`
		Value string       `yaml:"value"`
	}
	if err := node.Decode(&corners); err != nil {
		return err
	}
	for i, corner := range corners {
		v, err := value(corner.Value)
		if err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
		at := corner.At.Std()
		if i > 0 && at <= (*c)[i-1].At {
			return fmt.Errorf("point %d: its time must be after that of the point before", i)
		}
		*c = append(*c, Point{At: at, Value: v})
	}
	return nil
}

// value is a plain number, or a memory size in MiB.
func value(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v < 1e12 {
		return v, nil
	}
	memory, err := job.ParseMemory(text)
	mb, ok := memory.MB()
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is neither a number nor a memory size", text)
	}
	return float64(mb), nil
}
