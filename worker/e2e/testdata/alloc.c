/*
 * A program that uses a GPU as a job does: it takes memory on the first device it can see, says so, and keeps it until
 * it is ended.
 *
 *   gcc -O1 -Wall -Werror -o alloc alloc.c -ldl
 *   alloc MiB SAYTO        writes "<pid> <devices seen> <MiB held>" to the file SAYTO
 *
 * It speaks to the driver alone (libcuda.so.1), so that neither a toolkit nor a framework is needed. Declarations are our
 * own and follow NVIDIA's published ABI.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*call)();

static void *driver;

static call named(const char *name) {
	call f = (call)dlsym(driver, name);
	if (!f) { fprintf(stderr, "the driver has no %s\n", name); exit(3); }
	return f;
}

static void must(const char *what, int code) {
	if (code) { fprintf(stderr, "%s: CUDA error %d\n", what, code); exit(4); }
}

int main(int argc, char **argv) {
	int devices = 0, device = 0;
	void *context = NULL;
	unsigned long long memory = 0;
	if (argc != 3) { fprintf(stderr, "usage: alloc MiB SAYTO\n"); return 2; }
	size_t mib = (size_t)atol(argv[1]);
	if (!(driver = dlopen("libcuda.so.1", RTLD_NOW))) { fprintf(stderr, "%s\n", dlerror()); return 3; }
	must("cuInit", named("cuInit")(0));
	must("cuDeviceGetCount", named("cuDeviceGetCount")(&devices));
	must("cuDeviceGet", named("cuDeviceGet")(&device, 0));
	must("cuDevicePrimaryCtxRetain", named("cuDevicePrimaryCtxRetain")(&context, device));
	must("cuCtxSetCurrent", named("cuCtxSetCurrent")(context));
	must("cuMemAlloc", named("cuMemAlloc_v2")(&memory, mib << 20));
	must("cuMemsetD8", named("cuMemsetD8_v2")(memory, 1, mib << 20));
	FILE *say = fopen(argv[2], "w");
	if (!say) { perror(argv[2]); return 5; }
	fprintf(say, "%d %d %zu\n", (int)getpid(), devices, mib);
	fclose(say);
	for (;;) pause();
}
