package model

import (
	"encoding/json"
	"os"
	"testing"
)

type tableRow struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"`
	Config     Config  `json:"config"`
	Params     int64   `json:"param_count"`
	KV16       int64   `json:"kv_bytes_per_token_16bit"`
	Active     int64   `json:"active_params"`
	Native     float64 `json:"weight_bytes_native"`
	WithoutMTP float64 `json:"weight_bytes_native_without_mtp"`
}

func table(t testing.TB) []tableRow {
	t.Helper()
	data, err := os.ReadFile("../testdata/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Models []tableRow `json:"models"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Models
}

func TestParameterCountsAreExact(t *testing.T) {
	t.Parallel()
	for _, row := range table(t) {
		c := row.Config
		m, err := Read(c, row.Name)
		if err != nil {
			known, ok := Known(row.Name)
			if !ok {
				t.Errorf("%s: %v", row.Name, err)
				continue
			}
			if m, err = Read(known, row.Name); err != nil {
				t.Errorf("%s: %v", row.Name, err)
				continue
			}
		}
		if got := m.Params(); got != row.Params {
			t.Errorf("%s (%s): %d parameters, want %d (off by %d)", row.Name, m.Architecture, got, row.Params, got-row.Params)
		}
		if got := m.KVBytesPerToken(2); row.KV16 != 0 && got != row.KV16 {
			t.Errorf("%s: %d KV bytes a token, want %d", row.Name, got, row.KV16)
		}
		if row.Active != 0 && m.ActiveParams() != row.Active {
			t.Logf("%s: %d active, table says %d (off by %d)", row.Name, m.ActiveParams(), row.Active, m.ActiveParams()-row.Active)
		}
		var bytes float64
		plain := DTypeBytes(m.DType)
		for _, x := range m.Tensors {
			bytes += m.Quant.WeightBytes(m, x, plain)
		}
		want := row.Native
		if row.WithoutMTP > 0 {
			want = row.WithoutMTP
		}
		if d := bytes/want - 1; d > 0.003 || d < -0.003 {
			t.Errorf("%s: %.0f bytes, want %.0f (%+.2f %%)", row.Name, bytes, want, d*100)
		}
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
