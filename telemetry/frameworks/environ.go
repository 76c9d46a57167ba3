package frameworks

import "strings"

// hiding are variables under which a framework would see fewer GPUs than it can.
var hiding = []string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS", "JAX_PLATFORM_NAME"}

// polite make the frameworks count as the driver does, take no memory they need not take, and say less.
var polite = []string{
	"CUDA_DEVICE_ORDER=PCI_BUS_ID",
	"XLA_PYTHON_CLIENT_PREALLOCATE=false", // JAX takes three quarters of every GPU otherwise
	"TF_FORCE_GPU_ALLOW_GROWTH=true",
	"TF_CPP_MIN_LOG_LEVEL=3",
}

// environ is given without what is Berth's own (a token must not reach a package somebody installed), without what
// hides GPUs, and with what keeps the frameworks polite.
func environ(given []string) []string {
	var out []string
	for _, kv := range given {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "BERTH_") && !isOneOf(name, hiding) && !isOneOf(name, polite) {
			out = append(out, kv)
		}
	}
	return append(out, polite...)
}

func isOneOf(name string, list []string) bool {
	for _, kv := range list {
		if n, _, _ := strings.Cut(kv, "="); n == name {
			return true
		}
	}
	return false
}

func lookup(environ []string, name string) string {
	value := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v // the last one counts, as in a process
		}
	}
	return value
}
