// A driver on ordinary memory, for machines without a GPU: what the backend calls, with kernels that are C functions known
// by name. It is strict where the real one is silent: memory that is set or copied must lie in one allocation.

#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700,
       UPDATE_FAILURE = 910 };

#define MEMORY ((size_t)1 << 30)
#define SHARED 232448

// A kernel's failure is the answer to everything after it. There is one context, which threads make theirs.
int sticky;
static _Thread_local void *current;
#define ALIVE if (sticky) return sticky; if (!current) return INVALID_CONTEXT

// What a test in this process may ask for: what was done so far, and what is there now.
struct counts { int64_t launches, replays, updates, allocations, memory, modules, contexts, graphs; void *stream; } mock_counts;

static void die(const char *what) {
    fprintf(stderr, "mock driver: %s\n", what);
    _exit(99);
}

// Memory.

static struct { char *address; size_t bytes; } allocations[256];
static size_t used;

static char *inside(uint64_t address, size_t bytes) {
    for (int i = 0; i < 256; i++) {
        char *from = allocations[i].address;
        if (from && (char *)address >= from && (char *)address + bytes <= from + allocations[i].bytes) return (char *)address;
    }
    die("memory outside of every allocation");
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    ALIVE;
    if (used + bytes > MEMORY) return OUT_OF_MEMORY;
    for (int i = 0; i < 256; i++) {
        if (allocations[i].address) continue;
        if (posix_memalign((void **)&allocations[i].address, 512, bytes)) return OUT_OF_MEMORY;
        allocations[i].bytes = bytes;
        used += bytes;
        mock_counts.allocations++, mock_counts.memory++;
        *address = (uint64_t)allocations[i].address;
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t address) {
    for (int i = 0; i < 256; i++) {
        if ((uint64_t)allocations[i].address != address) continue;
        used -= allocations[i].bytes;
        mock_counts.memory--;
        free(allocations[i].address);
        allocations[i].address = 0;
        return SUCCESS;
    }
    die("memory is freed that was not allocated");
    return INVALID_VALUE;
}

// Pinned memory of the host, which alone can be copied on a stream.

static struct { char *address; size_t bytes; } pinned[16];

static void *held(void *address, size_t bytes) {
    for (int i = 0; i < 16; i++) {
        char *from = pinned[i].address;
        if (from && (char *)address >= from && (char *)address + bytes <= from + pinned[i].bytes) return address;
    }
    die("a copy on a stream of memory that is not pinned");
    return 0;
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    ALIVE;
    for (int i = 0; i < 16; i++) {
        if (pinned[i].address) continue;
        *address = pinned[i].address = malloc(bytes);
        pinned[i].bytes = bytes;
        return *address ? SUCCESS : OUT_OF_MEMORY;
    }
    return OUT_OF_MEMORY;
}

int cuMemFreeHost(void *address) {
    for (int i = 0; i < 16; i++) {
        if (pinned[i].address != address) continue;
        free(address);
        pinned[i].address = 0;
        return SUCCESS;
    }
    die("memory is freed that was not pinned");
    return INVALID_VALUE;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t bytes, void *stream) {
    (void)stream; ALIVE; memcpy(inside(to, bytes), held(from, bytes), bytes); return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream; ALIVE; memcpy(held(to, bytes), inside(from, bytes), bytes); return SUCCESS;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { ALIVE; memcpy(inside(to, bytes), from, bytes); return SUCCESS; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { ALIVE; memcpy(to, inside(from, bytes), bytes); return SUCCESS; }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    (void)stream; ALIVE; memmove(inside(to, bytes), inside(from, bytes), bytes); return SUCCESS;
}
int cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, void *stream) {
    (void)stream; ALIVE; memset(inside(at, bytes), byte, bytes); return SUCCESS;
}

// The device.

int cuInit(unsigned flags) { (void)flags; return getenv("CUDA_VISIBLE_DEVICES") && !*getenv("CUDA_VISIBLE_DEVICES") ? 100 : SUCCESS; }
int cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
int cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal == 0 ? SUCCESS : 101; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; snprintf(name, length, "Mock GPU"); return SUCCESS; }
int cuDeviceGetPCIBusId(char *bus, int length, int device) { (void)device; snprintf(bus, length, "0000:0a:00.0"); return SUCCESS; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = MEMORY; return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &sticky; mock_counts.contexts++; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; mock_counts.contexts--; return SUCCESS; }
int cuCtxSetCurrent(void *context) { current = context; return context == &sticky ? SUCCESS : INVALID_VALUE; }
int cuCtxGetCurrent(void **context) { *context = current; return SUCCESS; }
int cuCtxGetDevice(int *device) { *device = 0; return current ? SUCCESS : INVALID_CONTEXT; }
int cuCtxPushCurrent_v2(void *context) { if (current) die("a context is pushed on another"); return cuCtxSetCurrent(context); }
int cuCtxPopCurrent_v2(void **context) { *context = current; current = 0; return SUCCESS; }
int cuCtxSynchronize(void) { ALIVE; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const int known[][2] = {{1, 1024}, {13, 1980000}, {16, 132}, {36, 3201000}, {37, 6144}, {38, 50 << 20}, {39, 2048}, {75, 9}, {76, 0},
                                   {81, 233472}, {82, 65536}, {97, SHARED}, {106, 32}, {111, 1024}};
    (void)device;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) { *value = known[i][1]; return SUCCESS; }
    return INVALID_VALUE;
}

int cuGetErrorName(int error, const char **text) {
    *text = error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR";
    return SUCCESS;
}
int cuGetErrorString(int error, const char **text) {
    *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "an error";
    return SUCCESS;
}

// Kernels. Each runs with its number of programs and eight bytes of every parameter.

typedef void (*body)(int64_t programs, uint64_t *p);
#define FLOATS(i) ((float *)p[i])
#define EACH for (int64_t i = 0; i < programs; i++)

static void twice(int64_t programs, uint64_t *p) { EACH FLOATS(1)[i] = 2 * FLOATS(0)[i]; }
static void overwrite(int64_t programs, uint64_t *p) { EACH { FLOATS(1)[i] = 2 * FLOATS(0)[i]; FLOATS(0)[i] = 0; } }
static void third(int64_t programs, uint64_t *p) { EACH FLOATS(1)[i] = FLOATS(2)[i]; }
static void reverse(int64_t programs, uint64_t *p) { EACH FLOATS(1)[i] = FLOATS(0)[(int64_t)p[2] - 1 - i]; }
static void after(int64_t programs, uint64_t *p) { twice(programs, p); FLOATS(1)[p[2]] = 0; }
static void before(int64_t programs, uint64_t *p) { twice(programs, p); FLOATS(1)[-3] = 0; }
static void after_input(int64_t programs, uint64_t *p) { twice(programs, p); FLOATS(0)[p[2] + 7] = 0; }
static void crash(int64_t programs, uint64_t *p) { (void)programs, (void)p; sticky = ILLEGAL_ADDRESS; }
static void hang(int64_t programs, uint64_t *p) { (void)programs, (void)p; for (;;) pause(); }
static void die_kernel(int64_t programs, uint64_t *p) { (void)programs, (void)p; _exit(0); }
static void add(int64_t programs, uint64_t *p) { EACH FLOATS(2)[i] = FLOATS(0)[i] + FLOATS(1)[i]; }
// What the first 16 words of a tensor map say.
static void show_map(int64_t programs, uint64_t *p) { (void)programs; for (int i = 0; i < 16; i++) FLOATS(1)[i] = (float)((uint64_t *)p[0])[i]; }
static void flush(int64_t programs, uint64_t *p) { (void)programs; memset(inside(p[0], 16 * p[1]), (int)p[2], 16 * p[1]); }
static void digest(int64_t programs, uint64_t *p) {
    (void)programs;
    unsigned char *bytes = (unsigned char *)inside(p[0], p[1]);
    for (uint64_t i = 0; i < p[1]; i++) {
        uint64_t x = p[2] + (i << 8 | bytes[i]) * 0x9e3779b97f4a7c15ull;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ x >> 27) * 0x94d049bb133111ebull;
        *(uint64_t *)p[3] += x ^ x >> 31;
    }
}

static double element(uint64_t data, int64_t at, int narrow) {
    return narrow ? ((float *)data)[at] : ((double *)data)[at];
}

// Plain products: the order of sums is the real kernel's affair.
#define PRODUCT(name, type, is_single)                                                                                   \
    static void name(int64_t programs, uint64_t *p) {                                                                    \
        int64_t a_row = p[1], a_col = p[2], b_row = p[5], b_col = p[6], m = p[9], k = p[10], n = p[11];                  \
        int a_narrow = is_single || p[3], b_narrow = is_single || p[7];                                                  \
        type *out = (type *)inside(p[8], m * n * sizeof(type));                                                          \
        if (programs != (m + 63) / 64 * ((n + 63) / 64)) die("a product with another grid");                             \
        for (int64_t i = 0; i < m * n; i++) out[i] = 0;                                                                  \
        for (int64_t i = 0; i < m; i++)                                                                                  \
            for (int64_t t = 0; t < k; t++) {                                                                            \
                type left = element(p[0], i * a_row + t * a_col, a_narrow);                                              \
                for (int64_t j = 0; j < n; j++)                                                                          \
                    out[i * n + j] += left * (type)element(p[4], t * b_row + j * b_col, b_narrow);                       \
            }                                                                                                            \
    }
PRODUCT(product_f64, double, 0)
PRODUCT(product_f32, float, 1)

static struct kernel { const char *name; body run; int parameters; } kernels[] = {
    {"akg_flush_l2", flush, 3}, {"akg_digest", digest, 4}, {"twice", twice, 3}, {"overwrite", overwrite, 3}, {"third", third, 4},
    {"reverse", reverse, 3}, {"after", after, 3}, {"before", before, 3}, {"after_input", after_input, 3}, {"crash", crash, 3},
    {"akg_product_f64", product_f64, 12}, {"akg_product_f32", product_f32, 12}, {"hang", hang, 3}, {"die", die_kernel, 3},
    {"show_map", show_map, 2}, {"add", add, 3},
};

int cuModuleLoadData(void **module, const void *image) {
    ALIVE;
    if (memcmp(image, "\177ELF mock", 9) && memcmp(image, ".version", 8)) return INVALID_IMAGE;
    *module = kernels;
    mock_counts.modules++;
    return SUCCESS;
}

int cuModuleUnload(void *module) { (void)module; mock_counts.modules--; return SUCCESS; }

int cuModuleGetFunction(struct kernel **function, void *module, const char *name) {
    (void)module;
    for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0) { *function = &kernels[i]; return SUCCESS; }
    return NOT_FOUND;
}

int cuFuncLoad(struct kernel *function) { ALIVE; return function ? SUCCESS : INVALID_VALUE; }
int cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)function;
    return attribute == 8 && value > SHARED ? INVALID_VALUE : SUCCESS;
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)function;
    *value = attribute == 4 ? 40 : attribute == 3 ? 16 : attribute == 1 ? 256 : -1;
    return *value < 0 ? INVALID_VALUE : SUCCESS;
}

// The part of a run that a tool looks at: the names of its kernels are written to the file in MOCK_PROFILE, and the sizes of all
// allocations to that in MOCK_ALLOCATIONS.

static FILE *profile;

int cuProfilerStart(void) {
    const char *path = getenv("MOCK_PROFILE");
    if (path) profile = fopen(path, "w");
    path = getenv("MOCK_ALLOCATIONS");
    FILE *sizes = path ? fopen(path, "w") : 0;
    for (int i = 0; sizes && i < 256; i++) if (allocations[i].address) fprintf(sizes, "%zu\n", allocations[i].bytes);
    if (sizes) fclose(sizes);
    return SUCCESS;
}

int cuProfilerStop(void) {
    if (profile) fclose(profile);
    profile = 0;
    return SUCCESS;
}

int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, uint64_t address, const uint64_t *extents,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,
                           int promotion, int fill) {
    (void)steps, (void)interleave, (void)promotion, (void)fill;
    uint64_t *words = map;
    if ((uint64_t)map % 64 || address % 16 || rank > 5) return INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++) if (box[i] > 256) return INVALID_VALUE;
    *map++ = type, *map++ = rank, *map++ = swizzle;
    for (uint32_t i = 0; i < rank; i++) *map++ = extents[i];
    for (uint32_t i = 0; i + 1 < rank; i++) *map++ = strides[i];
    for (uint32_t i = 0; i < rank; i++) *map++ = box[i];
    // Maps of the tests have three dimensions at most.
    words[15] = address;
    return SUCCESS;
}

int cuTensorMapReplaceAddress(uint64_t *map, uint64_t address) {
    if (address % 16) return INVALID_VALUE;
    map[15] = address;
    return SUCCESS;
}

// Launches, at once or into a graph.

struct config { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; };
struct node { struct kernel *kernel; int64_t programs; uint64_t values[10]; uint64_t map[16]; int at; unsigned needs; };
struct graph { int length; struct node nodes[16]; };

static void run(struct node *node) {
    if (strcmp(node->kernel->name, "show_map") == 0) node->values[0] = (uint64_t)node->map;
    if (profile) fprintf(profile, "%s\n", node->kernel->name);
    if (!sticky) node->kernel->run(node->programs, node->values);
}

static int node_of(struct node *node, struct kernel *kernel, const unsigned *grid, const unsigned *block, void **parameters) {
    if (grid[1] != 1 || grid[2] != 1 || block[0] < 1 || block[0] > 1024 || !grid[0]) return INVALID_VALUE;
    *node = (struct node){kernel, grid[0], {0}, {0}, node->at, node->needs};
    for (int i = 0; i < kernel->parameters; i++) memcpy(&node->values[i], parameters[i], 8);
    if (strcmp(kernel->name, "show_map") == 0) memcpy(node->map, parameters[0], 128);
    return SUCCESS;
}

int cuLaunchKernelEx(const struct config *config, struct kernel *kernel, void **parameters, void **extra) {
    ALIVE;
    (void)extra;
    struct node node = {0};
    // Kernels are gone with the last module.
    int refused = mock_counts.modules > 0 ? node_of(&node, kernel, config->grid, config->block, parameters) : NOT_FOUND;
    if (refused) return refused;
    run(&node);
    mock_counts.launches++, mock_counts.stream = config->stream;
    return SUCCESS;
}

// Graphs that are made node by node. A node is known by its place in the graph, and needs those whose bits are set.

struct parameters { struct kernel *kernel; unsigned grid[3], block[3], shared; void **parameters, **extra, *other, *context; };

int cuGraphCreate(struct graph **graph, unsigned flags) { (void)flags; ALIVE; *graph = calloc(1, sizeof **graph); return SUCCESS; }
int cuGraphAddKernelNode_v2(struct node **node, struct graph *graph, struct node **before, size_t count, const struct parameters *p) {
    *node = &graph->nodes[graph->length];
    for (size_t i = 0; i < count; i++) {
        if (before[i] < graph->nodes || before[i] >= *node) die("a launch needs one that is not in its graph");
        (*node)->needs |= 1u << before[i]->at;
    }
    (*node)->at = graph->length++;
    return node_of(*node, p->kernel, p->grid, p->block, p->parameters);
}
int cuGraphKernelNodeSetAttribute(struct node *node, int attribute, const void *value) {
    (void)node, (void)value;
    return attribute == 2 || attribute == 4 ? SUCCESS : INVALID_VALUE;
}
int cuGraphExecKernelNodeSetParams_v2(struct graph *executable, const struct node *node, const struct parameters *p) {
    ALIVE;
    mock_counts.updates++;
    if (executable->nodes[node->at].kernel != p->kernel) die("another kernel is put into a graph");
    return node_of(&executable->nodes[node->at], p->kernel, p->grid, p->block, p->parameters);
}

int cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = malloc(1); return SUCCESS; }
int cuStreamSynchronize(void *stream) { (void)stream; return sticky; }
int cuGraphDestroy(struct graph *graph) { free(graph); return SUCCESS; }
int cuGraphInstantiateWithFlags(struct graph **executable, const struct graph *graph, unsigned long long flags) {
    (void)flags;
    *executable = malloc(sizeof **executable);
    mock_counts.graphs++;
    **executable = *graph;
    return SUCCESS;
}
int cuGraphExecUpdate_v2(struct graph *executable, const struct graph *graph, void *result) {
    (void)result;
    if (executable->length != graph->length) return UPDATE_FAILURE;
    for (int i = 0; i < graph->length; i++) if (executable->nodes[i].needs != graph->nodes[i].needs) return UPDATE_FAILURE;
    *executable = *graph;
    return SUCCESS;
}
int cuGraphExecDestroy(struct graph *executable) { mock_counts.graphs--; free(executable); return SUCCESS; }
int cuGraphUpload(struct graph *executable, void *stream) { (void)executable, (void)stream; ALIVE; return SUCCESS; }
int cuGraphLaunch(struct graph *executable, void *stream) {
    ALIVE;
    mock_counts.replays++, mock_counts.stream = stream;
    // Of the launches that may run, the last does: an order that nothing but what they need makes right.
    for (unsigned done = 0; done != (1u << executable->length) - 1;) {
        int at = executable->length - 1;
        while (done >> at & 1 || executable->nodes[at].needs & ~done) at--;
        run(&executable->nodes[at]);
        done |= 1u << at;
    }
    return SUCCESS;
}

// Events.

int cuEventCreate(struct timespec **event, unsigned flags) { (void)flags; *event = calloc(1, sizeof **event); return SUCCESS; }
int cuEventRecord(struct timespec *event, void *stream) { (void)stream; ALIVE; return clock_gettime(CLOCK_MONOTONIC, event); }
int cuEventElapsedTime_v2(float *milliseconds, const struct timespec *start, const struct timespec *end) {
    *milliseconds = (float)((end->tv_sec - start->tv_sec) * 1e3 + (end->tv_nsec - start->tv_nsec) * 1e-6);
    return SUCCESS;
}
