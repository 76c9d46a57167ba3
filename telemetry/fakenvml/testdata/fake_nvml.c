/*
 * A libnvidia-ml.so.1 for tests: it has no GPU, it has a folder. Every attribute is one small file, read again on
 * each call, so a test (or a person with a shell) changes the machine while a program looks at it.
 *
 *   gcc -O1 -Wall -Werror -fPIC -shared -fvisibility=hidden -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fake_nvml.c -ldl
 *
 * The folder is $FAKE_NVML_DIR, else the one the library itself lies in.
 *
 *   count                 how many GPUs
 *   driver                driver version
 *   init_ret              what nvmlInit answers (9: driver not loaded, 18: library and driver differ)
 *   hang, delay_us        while "1": no call returns; every call takes that long
 *   crash                 while "1": the next call on a device ends the process
 *   events                append lines "<gpu> <type> <data>"; gpu -1 names no device
 *   <i>/name uuid pci cc  identity; bus id "00000000:01:00.0", compute capability "9.0"
 *   <i>/ret               what every call on this GPU answers (15: lost)
 *   <i>/hang delay_us     as above, for this GPU alone
 *   <i>/mem_total mem_used mem_reserved       bytes
 *   <i>/util temp power_mw limit_mw energy_mj throttle ecc_unc recovery
 *   <i>/remap             "<correctable> <uncorrectable> <pending> <failed>"
 *   <i>/procs             lines "<pid> <bytes> [C|G|M] [<sm percent>]"; bytes -1: not to be had
 *   <i>/mig               1: the GPU is cut up
 *   <i>/mig<k>/uuid gi ci mem_total mem_used procs ...
 *
 * An attribute without its file answers NOT_SUPPORTED. A function named by -DOMIT_<function> is left out of the
 * library altogether, as in an older driver's. Declarations are our own; struct layouts follow NVIDIA's published ABI.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int ret_t;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, TOO_SMALL = 7,
       NO_DRIVER = 9, TIMED_OUT = 10, LOST = 15, MISMATCH = 18, UNKNOWN = 999 };

struct device { int gpu, mig; };        /* mig -1: the GPU itself */
typedef struct device *dev_t_;
struct event_set { off_t offset; };
struct memory { u64 total, free, used; };
struct memory_v2 { u32 version; u64 total, reserved, free, used; };
struct utilization { u32 gpu, memory; };
struct process { u32 pid; u64 used; u32 gi, ci; };
struct process_v1 { u32 pid; u64 used; };
struct sample { u32 pid; u64 time; u32 sm, mem, enc, dec; };
struct pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };
struct field { u32 id, scope; long long time, latency; u32 type, ret; union { double d; u32 u; u64 ull; } value; };
struct event { dev_t_ device; u64 type, data; u32 gi, ci; };
struct temperature { u32 version, sensor; int value; };

#define GPUS 64
#define MIGS 8
static struct device devices[GPUS][MIGS + 1];
static char root[3000];
static int ready;

static void find_root(void) {
	const char *env = getenv("FAKE_NVML_DIR");
	Dl_info self;
	if (root[0]) return;
	if (env && *env) { snprintf(root, sizeof root, "%s", env); return; }
	if (!dladdr((void *)find_root, &self) || !realpath(self.dli_fname, root)) { strcpy(root, "."); return; }
	char *slash = strrchr(root, '/');
	if (slash) *slash = 0;
}

/* slurp reads a whole file; -1 when there is none. */
static int slurp(const char *path, char *buf, int size) {
	int fd = open(path, O_RDONLY | O_CLOEXEC), n, got = 0;
	if (fd < 0) return -1;
	while (got < size - 1 && (n = read(fd, buf + got, size - 1 - got)) > 0) got += n;
	close(fd);
	buf[got] = 0;
	return got;
}

static int global(const char *name, char *buf, int size) {
	char path[4096];
	find_root();
	snprintf(path, sizeof path, "%s/%s", root, name);
	return slurp(path, buf, size);
}

static int attr(dev_t_ d, const char *name, char *buf, int size) {
	char path[4096];
	if (d->mig < 0) snprintf(path, sizeof path, "%s/%d/%s", root, d->gpu, name);
	else snprintf(path, sizeof path, "%s/%d/mig%d/%s", root, d->gpu, d->mig, name);
	int n = slurp(path, buf, size);
	while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == ' ')) buf[--n] = 0;
	return n;
}

static int number(dev_t_ d, const char *name, long long *v) {
	char buf[64];
	if (attr(d, name, buf, sizeof buf) <= 0) return 0;
	*v = strtoll(buf, NULL, 10);
	return 1;
}

static long long global_number(const char *name, long long otherwise) {
	char buf[64];
	return global(name, buf, sizeof buf) > 0 ? strtoll(buf, NULL, 10) : otherwise;
}

static void stall(long long us) { if (us > 0) { struct timespec t = { us / 1000000, us % 1000000 * 1000 }; nanosleep(&t, NULL); } }

static ret_t enter_library(void) {
	while (global_number("hang", 0)) stall(5000);
	stall(global_number("delay_us", 0));
	return ready ? OK : UNINITIALIZED;
}

/* enter is where every call on a device begins: all that can be wrong with it. */
static ret_t enter(dev_t_ d) {
	long long v = 0;
	ret_t r = enter_library();
	if (r) return r;
	if (!d) return INVALID;
	struct device whole = { d->gpu, -1 };
	if (global_number("crash", 0)) abort();
	while (number(&whole, "hang", &v) && v) stall(5000);
	if (number(&whole, "delay_us", &v)) stall(v);
	return number(&whole, "ret", &v) ? (ret_t)v : OK;
}

static ret_t gauge_u32(dev_t_ d, const char *name, u32 *out) {
	long long v; ret_t r = enter(d);
	if (r) return r;
	if (!number(d, name, &v)) return UNSUPPORTED;
	*out = (u32)v;
	return OK;
}

static ret_t gauge_u64(dev_t_ d, const char *name, u64 *out) {
	long long v; ret_t r = enter(d);
	if (r) return r;
	if (!number(d, name, &v)) return UNSUPPORTED;
	*out = (u64)v;
	return OK;
}

static ret_t text(dev_t_ d, const char *name, char *out, u32 size) {
	char buf[256]; ret_t r = enter(d);
	if (r) return r;
	int n = attr(d, name, buf, sizeof buf);
	if (n < 0) return UNSUPPORTED;
	if ((u32)n + 1 > size) return TOO_SMALL;
	memcpy(out, buf, n + 1);
	return OK;
}

/* ---- library ---- */
#ifndef OMIT_nvmlInit_v2
API ret_t nvmlInit_v2(void) {
	ret_t r;
	find_root();
	for (int g = 0; g < GPUS; g++) for (int m = 0; m <= MIGS; m++) devices[g][m] = (struct device){ g, m - 1 };
	while (global_number("hang", 0)) stall(5000);
	stall(global_number("delay_us", 0));
	r = (ret_t)global_number("init_ret", 0);
	if (!r) ready++;
	return r;
}
#endif
#ifndef OMIT_nvmlInitWithFlags
API ret_t nvmlInitWithFlags(u32 flags) { (void)flags; return nvmlInit_v2(); }
#endif
#ifndef OMIT_nvmlShutdown
API ret_t nvmlShutdown(void) { if (!ready) return UNINITIALIZED; ready--; return OK; }
#endif
#ifndef OMIT_nvmlErrorString
API const char *nvmlErrorString(ret_t r) {
	switch (r) {
	case OK: return "Success"; case UNINITIALIZED: return "Uninitialized"; case INVALID: return "Invalid Argument";
	case UNSUPPORTED: return "Not Supported"; case NO_PERMISSION: return "Insufficient Permissions";
	case NOT_FOUND: return "Not Found"; case TOO_SMALL: return "Insufficient Size"; case NO_DRIVER: return "Driver Not Loaded";
	case TIMED_OUT: return "Timeout"; case LOST: return "GPU is lost"; case MISMATCH: return "Driver/library version mismatch";
	}
	return "Unknown Error";
}
#endif
#ifndef OMIT_nvmlSystemGetDriverVersion
API ret_t nvmlSystemGetDriverVersion(char *out, u32 size) {
	char buf[80]; ret_t r = enter_library();
	if (r) return r;
	if (global("driver", buf, sizeof buf) <= 0) return UNSUPPORTED;
	snprintf(out, size, "%s", buf);
	out[strcspn(out, "\n")] = 0;
	return OK;
}
#endif
#ifndef OMIT_nvmlSystemGetNVMLVersion
API ret_t nvmlSystemGetNVMLVersion(char *out, u32 size) { snprintf(out, size, "13.580.0"); return enter_library(); }
#endif
#ifndef OMIT_nvmlSystemGetCudaDriverVersion_v2
API ret_t nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return enter_library(); }
#endif
#ifndef OMIT_nvmlDeviceGetCount_v2
API ret_t nvmlDeviceGetCount_v2(u32 *out) {
	ret_t r = enter_library();
	if (r) return r;
	long long n = global_number("count", 0);
	*out = n < 0 ? 0 : n > GPUS ? GPUS : (u32)n;
	return OK;
}
#endif
#ifndef OMIT_nvmlDeviceGetHandleByIndex_v2
API ret_t nvmlDeviceGetHandleByIndex_v2(u32 i, dev_t_ *out) {
	ret_t r = enter_library();
	if (r) return r;
	if (i >= GPUS || i >= global_number("count", 0)) return INVALID;
	*out = &devices[i][0];
	return OK;
}
#endif
static ret_t search(const char *name, const char *want, dev_t_ *out) {
	char buf[256]; ret_t r = enter_library();
	if (r) return r;
	for (int g = 0; g < GPUS && g < global_number("count", 0); g++)
		for (int m = 0; m <= MIGS; m++)
			if (attr(&devices[g][m], name, buf, sizeof buf) > 0 && !strcmp(buf, want)) { *out = &devices[g][m]; return OK; }
	return NOT_FOUND;
}
#ifndef OMIT_nvmlDeviceGetHandleByUUID
API ret_t nvmlDeviceGetHandleByUUID(const char *uuid, dev_t_ *out) { return search("uuid", uuid, out); }
#endif
#ifndef OMIT_nvmlDeviceGetHandleByPciBusId_v2
API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, dev_t_ *out) { return search("pci", id, out); }
#endif

/* ---- identity ---- */
#ifndef OMIT_nvmlDeviceGetIndex
API ret_t nvmlDeviceGetIndex(dev_t_ d, u32 *out) { ret_t r = enter(d); if (!r) *out = d->mig < 0 ? d->gpu : d->mig; return r; }
#endif
#ifndef OMIT_nvmlDeviceGetMinorNumber
API ret_t nvmlDeviceGetMinorNumber(dev_t_ d, u32 *out) { ret_t r = enter(d); if (!r) *out = d->gpu; return r; }
#endif
#ifndef OMIT_nvmlDeviceGetUUID
API ret_t nvmlDeviceGetUUID(dev_t_ d, char *out, u32 size) { return text(d, "uuid", out, size); }
#endif
#ifndef OMIT_nvmlDeviceGetName
API ret_t nvmlDeviceGetName(dev_t_ d, char *out, u32 size) { return text(d, "name", out, size); }
#endif
#ifndef OMIT_nvmlDeviceGetPciInfo_v3
API ret_t nvmlDeviceGetPciInfo_v3(dev_t_ d, struct pci *out) {
	memset(out, 0, sizeof *out);
	ret_t r = text(d, "pci", out->bus_id, sizeof out->bus_id);
	if (!r) sscanf(out->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
	return r;
}
#endif
#ifndef OMIT_nvmlDeviceGetCudaComputeCapability
API ret_t nvmlDeviceGetCudaComputeCapability(dev_t_ d, int *major, int *minor) {
	char buf[16]; ret_t r = text(d, "cc", buf, sizeof buf);
	if (!r && sscanf(buf, "%d.%d", major, minor) != 2) r = UNKNOWN;
	return r;
}
#endif
#ifndef OMIT_nvmlDeviceGetPersistenceMode
API ret_t nvmlDeviceGetPersistenceMode(dev_t_ d, u32 *out) { ret_t r = enter(d); if (!r) *out = 1; return r; }
#endif

/* ---- gauges ---- */
static ret_t memory(dev_t_ d, struct memory_v2 *m) {
	long long total, used = 0, reserved = 0; ret_t r = enter(d);
	if (r) return r;
	if (!number(d, "mem_total", &total)) return UNSUPPORTED;
	number(d, "mem_used", &used);
	number(d, "mem_reserved", &reserved);
	m->total = total; m->used = used; m->reserved = reserved; m->free = total - used - reserved;
	return OK;
}
#ifndef OMIT_nvmlDeviceGetMemoryInfo
API ret_t nvmlDeviceGetMemoryInfo(dev_t_ d, struct memory *out) {
	struct memory_v2 m; ret_t r = memory(d, &m);
	if (!r) *out = (struct memory){ m.total, m.free, m.used + m.reserved };
	return r;
}
#endif
#ifndef OMIT_nvmlDeviceGetMemoryInfo_v2
API ret_t nvmlDeviceGetMemoryInfo_v2(dev_t_ d, struct memory_v2 *out) {
	if (out->version != (sizeof *out | 2u << 24)) return INVALID;
	return memory(d, out);
}
#endif
#ifndef OMIT_nvmlDeviceGetUtilizationRates
API ret_t nvmlDeviceGetUtilizationRates(dev_t_ d, struct utilization *out) { out->memory = 0; return gauge_u32(d, "util", &out->gpu); }
#endif
#ifndef OMIT_nvmlDeviceGetTemperature
API ret_t nvmlDeviceGetTemperature(dev_t_ d, u32 sensor, u32 *out) { return sensor ? INVALID : gauge_u32(d, "temp", out); }
#endif
#ifndef OMIT_nvmlDeviceGetTemperatureV
API ret_t nvmlDeviceGetTemperatureV(dev_t_ d, struct temperature *t) {
	if (t->version != (sizeof *t | 1u << 24)) return INVALID;
	return gauge_u32(d, "temp", (u32 *)&t->value);
}
#endif
#ifndef OMIT_nvmlDeviceGetTemperatureThreshold
API ret_t nvmlDeviceGetTemperatureThreshold(dev_t_ d, u32 kind, u32 *out) { ret_t r = enter(d); if (!r) *out = kind ? 90 : 95; return r; }
#endif
#ifndef OMIT_nvmlDeviceGetPowerUsage
API ret_t nvmlDeviceGetPowerUsage(dev_t_ d, u32 *out) { return gauge_u32(d, "power_mw", out); }
#endif
#ifndef OMIT_nvmlDeviceGetEnforcedPowerLimit
API ret_t nvmlDeviceGetEnforcedPowerLimit(dev_t_ d, u32 *out) { return gauge_u32(d, "limit_mw", out); }
#endif
#ifndef OMIT_nvmlDeviceGetTotalEnergyConsumption
API ret_t nvmlDeviceGetTotalEnergyConsumption(dev_t_ d, u64 *out) { return gauge_u64(d, "energy_mj", out); }
#endif
#ifndef OMIT_nvmlDeviceGetCurrentClocksEventReasons
API ret_t nvmlDeviceGetCurrentClocksEventReasons(dev_t_ d, u64 *out) { return gauge_u64(d, "throttle", out); }
#endif
#ifndef OMIT_nvmlDeviceGetCurrentClocksThrottleReasons
API ret_t nvmlDeviceGetCurrentClocksThrottleReasons(dev_t_ d, u64 *out) { return gauge_u64(d, "throttle", out); }
#endif
#ifndef OMIT_nvmlDeviceGetTotalEccErrors
API ret_t nvmlDeviceGetTotalEccErrors(dev_t_ d, u32 kind, u32 counter, u64 *out) {
	if (kind == 1 && counter == 0) return gauge_u64(d, "ecc_unc", out);
	*out = 0;
	return enter(d);
}
#endif
#ifndef OMIT_nvmlDeviceGetRemappedRows
API ret_t nvmlDeviceGetRemappedRows(dev_t_ d, u32 *corr, u32 *unc, u32 *pending, u32 *failed) {
	char buf[64]; ret_t r = enter(d);
	if (r) return r;
	if (attr(d, "remap", buf, sizeof buf) <= 0) return UNSUPPORTED;
	return sscanf(buf, "%u %u %u %u", corr, unc, pending, failed) == 4 ? OK : UNKNOWN;
}
#endif
#ifndef OMIT_nvmlDeviceGetRetiredPagesPendingStatus
API ret_t nvmlDeviceGetRetiredPagesPendingStatus(dev_t_ d, u32 *out) { (void)out; ret_t r = enter(d); return r ? r : UNSUPPORTED; }
#endif
#ifndef OMIT_nvmlDeviceGetFieldValues
API ret_t nvmlDeviceGetFieldValues(dev_t_ d, int n, struct field *f) {
	long long v; ret_t r = enter(d);
	if (r) return r;
	for (int i = 0; i < n; i++) {
		f[i].ret = UNSUPPORTED;
		if (f[i].id != 230 || !number(d, "recovery", &v)) continue;
		f[i].ret = OK; f[i].type = 1; f[i].value.u = (u32)v; f[i].latency = 1;
	}
	return OK;
}
#endif

/* ---- processes ---- */
struct line { u32 pid; u64 used; char kind; int sm; };

static int processes(dev_t_ d, const char *kinds, struct line *out, int most) {
	char buf[65536], *save = NULL;
	int n = 0;
	if (attr(d, "procs", buf, sizeof buf) <= 0) return 0;
	for (char *l = strtok_r(buf, "\n", &save); l && n < most; l = strtok_r(NULL, "\n", &save)) {
		struct line p = { 0, 0, 'C', -1 };
		long long used = 0;
		if (sscanf(l, "%u %lld %c %d", &p.pid, &used, &p.kind, &p.sm) < 2 || !strchr(kinds, p.kind)) continue;
		p.used = (u64)used; /* -1 is NVML's "not available" */
		out[n++] = p;
	}
	return n;
}

#define MOST 1024
static ret_t running(dev_t_ d, const char *kinds, u32 *count, struct process *out, struct process_v1 *old) {
	static __thread struct line found[MOST];
	ret_t r = enter(d);
	if (r) return r;
	int n = processes(d, kinds, found, MOST);
	u32 room = *count;
	*count = n;
	if ((u32)n > room) return TOO_SMALL;
	for (int i = 0; i < n; i++) {
		if (out) out[i] = (struct process){ found[i].pid, found[i].used, ~0u, ~0u };
		if (old) old[i] = (struct process_v1){ found[i].pid, found[i].used };
	}
	return OK;
}
#ifndef OMIT_nvmlDeviceGetComputeRunningProcesses
API ret_t nvmlDeviceGetComputeRunningProcesses(dev_t_ d, u32 *n, struct process_v1 *out) { return running(d, "C", n, NULL, out); }
#endif
#ifndef OMIT_nvmlDeviceGetComputeRunningProcesses_v3
API ret_t nvmlDeviceGetComputeRunningProcesses_v3(dev_t_ d, u32 *n, struct process *out) { return running(d, "C", n, out, NULL); }
#endif
#ifndef OMIT_nvmlDeviceGetGraphicsRunningProcesses_v3
API ret_t nvmlDeviceGetGraphicsRunningProcesses_v3(dev_t_ d, u32 *n, struct process *out) { return running(d, "G", n, out, NULL); }
#endif
#ifndef OMIT_nvmlDeviceGetMPSComputeRunningProcesses_v3
API ret_t nvmlDeviceGetMPSComputeRunningProcesses_v3(dev_t_ d, u32 *n, struct process *out) { return running(d, "M", n, out, NULL); }
#endif
#ifndef OMIT_nvmlDeviceGetProcessUtilization
API ret_t nvmlDeviceGetProcessUtilization(dev_t_ d, struct sample *out, u32 *count, u64 since) {
	static __thread struct line found[MOST];
	struct timespec now;
	ret_t r = enter(d);
	if (r) return r;
	int n = processes(d, "CGM", found, MOST), used = 0;
	clock_gettime(CLOCK_REALTIME, &now);
	u64 us = (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
	for (int i = 0; i < n; i++) {
		if (found[i].sm < 0 || us <= since) continue;
		if (out && (u32)used < *count) out[used] = (struct sample){ found[i].pid, us, (u32)found[i].sm, 0, 0, 0 };
		used++;
	}
	u32 room = *count;
	*count = used;
	if (!used) return NOT_FOUND;
	return !out || (u32)used > room ? TOO_SMALL : OK;
}
#endif

/* ---- MIG ---- */
#ifndef OMIT_nvmlDeviceGetMigMode
API ret_t nvmlDeviceGetMigMode(dev_t_ d, u32 *now, u32 *pending) { ret_t r = gauge_u32(d, "mig", now); *pending = *now; return r; }
#endif
#ifndef OMIT_nvmlDeviceGetMaxMigDeviceCount
API ret_t nvmlDeviceGetMaxMigDeviceCount(dev_t_ d, u32 *out) { ret_t r = enter(d); if (!r) *out = MIGS - 1; return r; }
#endif
#ifndef OMIT_nvmlDeviceGetMigDeviceHandleByIndex
API ret_t nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ d, u32 i, dev_t_ *out) {
	char buf[128]; ret_t r = enter(d);
	if (r) return r;
	if (i >= MIGS || d->mig >= 0) return INVALID;
	if (attr(&devices[d->gpu][i + 1], "uuid", buf, sizeof buf) <= 0) return NOT_FOUND;
	*out = &devices[d->gpu][i + 1];
	return OK;
}
#endif
#ifndef OMIT_nvmlDeviceGetDeviceHandleFromMigDeviceHandle
API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(dev_t_ d, dev_t_ *out) { ret_t r = enter(d); if (!r) *out = &devices[d->gpu][0]; return r; }
#endif
#ifndef OMIT_nvmlDeviceGetGpuInstanceId
API ret_t nvmlDeviceGetGpuInstanceId(dev_t_ d, u32 *out) { return gauge_u32(d, "gi", out); }
#endif
#ifndef OMIT_nvmlDeviceGetComputeInstanceId
API ret_t nvmlDeviceGetComputeInstanceId(dev_t_ d, u32 *out) { return gauge_u32(d, "ci", out); }
#endif

/* ---- events ---- */
#ifndef OMIT_nvmlDeviceGetSupportedEventTypes
API ret_t nvmlDeviceGetSupportedEventTypes(dev_t_ d, u64 *out) { ret_t r = enter(d); if (!r) *out = 0x1b; return r; }
#endif
#ifndef OMIT_nvmlDeviceRegisterEvents
API ret_t nvmlDeviceRegisterEvents(dev_t_ d, u64 types, struct event_set *s) { (void)types; (void)s; return enter(d); }
#endif
#ifndef OMIT_nvmlEventSetCreate
API ret_t nvmlEventSetCreate(struct event_set **out) {
	char path[4096]; struct stat st; ret_t r = enter_library();
	if (r) return r;
	*out = calloc(1, sizeof **out);
	snprintf(path, sizeof path, "%s/events", root);
	(*out)->offset = stat(path, &st) ? 0 : st.st_size;
	return OK;
}
#endif
static int next_event(struct event_set *s, struct event *e) {
	char path[4096], buf[256], *end;
	struct stat st;
	int gpu, n, fd;
	snprintf(path, sizeof path, "%s/events", root);
	if (stat(path, &st) || st.st_size <= s->offset) return 0;
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) return 0;
	n = pread(fd, buf, sizeof buf - 1, s->offset);
	close(fd);
	if (n <= 0) return 0;
	buf[n] = 0;
	if (!(end = strchr(buf, '\n'))) return 0;
	s->offset += end + 1 - buf;
	if (sscanf(buf, "%d %llu %llu", &gpu, &e->type, &e->data) != 3) return 0;
	e->device = gpu < 0 || gpu >= GPUS ? NULL : &devices[gpu][0];
	e->gi = e->ci = ~0u;
	return 1;
}
#ifndef OMIT_nvmlEventSetWait_v2
API ret_t nvmlEventSetWait_v2(struct event_set *s, struct event *e, u32 ms) {
	memset(e, 0, sizeof *e);
	ret_t r = enter_library();
	if (r) return r;
	for (u32 waited = 0;; waited += 100) { /* a real one sleeps until there is an event: this must cost next to nothing */
		if (next_event(s, e)) return OK;
		if (waited >= ms) return TIMED_OUT;
		stall(100000);
	}
}
#endif
#ifndef OMIT_nvmlEventSetFree
API ret_t nvmlEventSetFree(struct event_set *s) { free(s); return OK; }
#endif
