package telemetry_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthq/berth/telemetry"
)

// clock is a time that the test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newClock() *clock { return &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

// sample moves the clock and takes one reading.
func sample(t testing.TB, c *clock, s *telemetry.Sampler, step time.Duration) {
	t.Helper()
	c.now = c.now.Add(step)
	if _, err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The founding form, letter by letter.
func TestAggregateGolden(t *testing.T) {
	t.Parallel()
	src, c := newScripted("GPU-a", "GPU-b", "GPU-c"), newClock()
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
	m := s.Meter("GPU-a", "GPU-c")
	for i := range 4 {
		v := float64(i)
		src.set(func(s *telemetry.Snapshot) {
			s.Readings[0] = telemetry.Reading{
				UUID: "GPU-a", UtilizationPercent: f64(10 * v), TemperatureC: f64(40 + v), PowerW: f64(100 + v/2),
				MemoryUsedMB: i64(int64(1000 * i)), MemoryTotalMB: i64(10000), EnergyJoules: f64(5000 + 100*v),
			}
			s.Readings[2] = telemetry.Reading{UUID: "GPU-c", MemoryUsedMB: i64(7), MemoryTotalMB: i64(7)}
		})
		sample(t, c, s, time.Second)
	}
	c.now = c.now.Add(500 * time.Millisecond)
	got, err := json.Marshal(m.Stop())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"monitoring_duration_seconds":4.5,"sample_count":4,"gpu_stats":{` +
		`"0":{"name":"Test","uuid":"GPU-a","utilization":{"min":0,"max":30,"mean":15,"samples":4},` +
		`"memory_used_mb":{"min":0,"max":3000,"mean":1500},"memory_usage_percent":{"min":0,"max":30,"mean":15},` +
		`"temperature_c":{"min":40,"max":43,"mean":41.5},"power_draw_w":{"min":100,"max":101.5,"mean":100.75},"energy_joules":300},` +
		`"2":{"name":"Test","uuid":"GPU-c","memory_used_mb":{"min":7,"max":7,"mean":7},"memory_usage_percent":{"min":100,"max":100,"mean":100}}}}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	sample(t, c, s, time.Second)
	if again := m.Stop(); again.SampleCount != 4 || again.MonitoringDurationSeconds != 4.5 {
		t.Errorf("a stopped meter went on: %+v", again)
	}
}

func TestMeterWithoutReadings(t *testing.T) {
	t.Parallel()
	src, c := newScripted("GPU-a"), newClock()
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
	m := s.Meter("GPU-a", "GPU-unknown")
	src.set(func(s *telemetry.Snapshot) { s.Health, s.Readings[0].PowerW = telemetry.HealthSuspect, f64(1) })
	sample(t, c, s, time.Second)
	a := m.Stop()
	if a.SampleCount != 0 || a.MonitoringDurationSeconds != 1 || a.GPUStats == nil || len(a.GPUStats) != 0 {
		t.Errorf("%+v", a)
	}
}

// A burst of forced readings must not weigh more than the seconds it happened in.
func TestForcedReadingsDoNotWeigh(t *testing.T) {
	t.Parallel()
	src, c := newScripted("GPU-a"), newClock()
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
	m := s.Meter("GPU-a")
	src.set(func(s *telemetry.Snapshot) { s.Readings[0].UtilizationPercent = f64(0) })
	for range 10 {
		sample(t, c, s, time.Second)
	}
	src.set(func(s *telemetry.Snapshot) { s.Readings[0].UtilizationPercent = f64(100) })
	for range 100 {
		sample(t, c, s, time.Millisecond)
	}
	if mean := m.Stop().GPUStats["0"].Utilization.Mean; mean != 0 {
		t.Errorf("mean %g after ten idle seconds and a burst of 0.1 s", mean)
	}
}

func TestEnergySurvivesDriverReload(t *testing.T) {
	t.Parallel()
	src, c := newScripted("GPU-a"), newClock()
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
	m := s.Meter("GPU-a")
	for _, joules := range []float64{1000, 1500, 1600, 20, 50} {
		src.set(func(s *telemetry.Snapshot) {
			s.Readings[0].EnergyJoules, s.Readings[0].PowerW = f64(joules), f64(1)
		})
		sample(t, c, s, time.Second)
	}
	if used := m.Stop().GPUStats["0"].EnergyJoules; used == nil || *used != 630 {
		t.Errorf("energy %v, want 600 before and 30 after the reload", used)
	}
}

// Against the plain computation over all samples, with gauges that come and go, for runs of any length.
func TestMeterAgainstAllSamples(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 7))
		src, c := newScripted("GPU-a"), newClock()
		s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
		m := s.Meter("GPU-a")
		var all []float64
		least, most := math.Inf(1), math.Inf(-1)
		for range 1 + r.IntN(4000) {
			var v *float64
			if r.IntN(10) > 0 {
				v = f64(float64(r.IntN(1000)) / 10)
				all = append(all, *v)
				least, most = min(least, *v), max(most, *v)
			}
			src.set(func(s *telemetry.Snapshot) { s.Readings[0].UtilizationPercent = v })
			sample(t, c, s, time.Second+time.Duration(r.IntN(1000))*time.Millisecond)
		}
		if len(all) == 0 {
			continue
		}
		var sum float64
		for _, v := range all {
			sum += v
		}
		u := m.Stop().GPUStats["0"].Utilization
		if u.Samples != len(all) || u.Min != least || u.Max != most || math.Abs(u.Mean-sum/float64(len(all))) > 0.001 {
			t.Errorf("seed %d: %+v, want %g to %g, mean %g of %d", seed, u, least, most, sum/float64(len(all)), len(all))
		}
		checkSeries(t, m.Series())
	}
}

func checkSeries(t testing.TB, s telemetry.Series) {
	t.Helper()
	for key, g := range s.GPUs {
		if n := len(g.Utilization); n > telemetry.MaxPoints {
			t.Errorf("GPU %s: %d points", key, n)
		}
	}
	ratio := math.Log2(s.StepSeconds)
	if ratio != math.Trunc(ratio) {
		t.Errorf("a step of %g s is not 1 s doubled", s.StepSeconds)
	}
}

func TestSeriesStepDoubles(t *testing.T) {
	t.Parallel()
	src, c := newScripted("GPU-a", "GPU-b"), newClock()
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
	m := s.Meter("GPU-a", "GPU-b")
	for i := range 1300 {
		src.set(func(s *telemetry.Snapshot) {
			s.Readings[0].UtilizationPercent, s.Readings[1].TemperatureC = f64(float64(i%100)), nil
			if i < 10 { // GPU b falls silent early
				s.Readings[1].TemperatureC = f64(50)
			}
		})
		sample(t, c, s, time.Second)
		got := m.Series()
		want := 1.0
		for float64(i+1)/want >= telemetry.MaxPoints {
			want *= 2
		}
		if got.StepSeconds != want || len(got.GPUs["0"].Utilization) > telemetry.MaxPoints {
			t.Fatalf("after %d s: step %g s, want %g; %d points", i+1, got.StepSeconds, want, len(got.GPUs["0"].Utilization))
		}
	}
	got := m.Series()
	if b := got.GPUs["1"]; b.Utilization != nil || len(b.TemperatureC) == 0 || len(b.TemperatureC) > 300 || b.TemperatureC[0] != 50 {
		t.Errorf("GPU b: %+v", b)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back telemetry.Series
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.GPUs["0"].Utilization) != len(got.GPUs["0"].Utilization) {
		t.Error("points were lost in JSON")
	}
	if limit := 300*8 + 400; len(text) > limit {
		t.Errorf("%d bytes of JSON for one gauge of one device, want at most %d", len(text), limit)
	}
}

// Ten days of seconds take the memory of ten minutes.
func TestMeterMemoryIsConstant(t *testing.T) {
	src, c := newScripted("GPU-a"), newClock()
	s := telemetry.NewSampler(src, telemetry.SamplerOptions{Now: c.Now})
	m := s.Meter("GPU-a")
	src.set(func(s *telemetry.Snapshot) {
		s.Readings[0] = telemetry.Reading{UUID: "GPU-a", UtilizationPercent: f64(5), TemperatureC: f64(5), PowerW: f64(5),
			MemoryUsedMB: i64(5), MemoryTotalMB: i64(10), EnergyJoules: f64(5)}
	})
	heap := func(samples int) int64 {
		for range samples {
			c.now = c.now.Add(90 * time.Second)
			if _, err := s.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		src.mu.Lock()
		src.asked = nil
		src.mu.Unlock()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	early := heap(600)
	if late := heap(10_000); late-early > 64<<10 {
		t.Errorf("%d bytes after 600 samples, %d after 10,600", early, late)
	}
	checkSeries(t, m.Series())
}

func TestRunShorterThanAPeriodIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := newScripted("GPU-a")
		src.set(func(s *telemetry.Snapshot) { s.Readings[0].PowerW = f64(77) })
		s, stop := running(src, telemetry.SamplerOptions{})
		defer stop()
		time.Sleep(time.Second)
		m := s.MeterEvery(500*time.Millisecond, "GPU-a")
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if _, err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := m.Stop(); a.SampleCount == 0 {
			t.Errorf("%+v", a)
		}
	})
}
