// Matrix products of the judge's reference. `products.ptx` is made of this by
//   nvcc -ptx -arch=compute_75 products.cu
// with `.version` and `.target` lowered to what the oldest supported driver and device know; nothing newer is used.
//
// A block of 256 threads makes a tile of 64 x 64 elements, each thread 4 x 4 of them, 16 apart. Terms come in tiles of 16
// from shared memory, zeros behind the last. Sums of a few tiles are subtrees of the whole sum, which merge like the digits
// of a binary counter: subtree `t` with as many waiting ones as `t` has trailing one bits.

typedef long long i64;

#define TILE 64
#define TERMS 16
#define THREADS 256
#define OWN 4
#define APART (TILE / OWN)
// Subtrees are counted by 32 bits.
#define LEVELS 32

// `extent` rows of `depth` terms: where they begin, the elements from a row and from a term to the next, and whether they
// are stored as floats.
template <typename T> struct Operand {
    const void *data;
    i64 extent, depth, step, pace, narrow;

    __device__ T at(i64 index) const {
        return narrow ? T(((const float *)data)[index]) : ((const T *)data)[index];
    }

    __device__ void load(T (*tile)[TILE + 1], i64 first, i64 at) const {
        // Neighbouring threads read neighbours.
        bool along = llabs(pace) <= llabs(step);
#pragma unroll
        for (int i = threadIdx.x; i < TILE * TERMS; i += THREADS) {
            int row = along ? i / TERMS : i % TILE, term = along ? i % TERMS : i / TILE;
            bool inside = first + row < extent && at + term < depth;
            tile[term][row] = inside ? this->at((first + row) * step + (at + term) * pace) : T(0);
        }
    }
};

// The sum of a tile's terms, added to what `sum` holds: any order will do.
struct Fused {
    typedef double Real;
    enum { TILES = 4 };

    static __device__ void add(double (*a)[TILE + 1], double (*b)[TILE + 1], int y, int x, double sum[OWN][OWN]) {
#pragma unroll 4
        for (int t = 0; t < TERMS; t++)
#pragma unroll
            for (int i = 0; i < OWN; i++)
#pragma unroll
                for (int j = 0; j < OWN; j++) sum[i][j] = fma(a[t][y + i * APART], b[t][x + j * APART], sum[i][j]);
    }
    static __device__ double plus(double a, double b) { return a + b; }
};

// The sum of a tile's terms as a balanced tree, every product and sum rounded.
struct Pairwise {
    typedef float Real;
    enum { TILES = 1 };

    static __device__ void add(float (*a)[TILE + 1], float (*b)[TILE + 1], int y, int x, float sum[OWN][OWN]) {
        float one[OWN][OWN], two[OWN][OWN], four[OWN][OWN], eight[OWN][OWN];
#pragma unroll
        for (int t = 0; t < TERMS; t++)
#pragma unroll
            for (int i = 0; i < OWN; i++)
#pragma unroll
                for (int j = 0; j < OWN; j++) {
                    float s = __fmul_rn(a[t][y + i * APART], b[t][x + j * APART]);
                    if ((t & 1) == 0) { one[i][j] = s; continue; }
                    s = __fadd_rn(one[i][j], s);
                    if ((t & 2) == 0) { two[i][j] = s; continue; }
                    s = __fadd_rn(two[i][j], s);
                    if ((t & 4) == 0) { four[i][j] = s; continue; }
                    s = __fadd_rn(four[i][j], s);
                    if ((t & 8) == 0) { eight[i][j] = s; continue; }
                    sum[i][j] = __fadd_rn(eight[i][j], s);
                }
    }
    static __device__ float plus(float a, float b) { return __fadd_rn(a, b); }
};

template <typename Way, typename T = typename Way::Real>
__device__ void product(Operand<T> a, Operand<T> b, T *out) {
    __shared__ T as[TERMS][TILE + 1], bs[TERMS][TILE + 1];
    T waiting[LEVELS][OWN][OWN];
    i64 across = (b.extent + TILE - 1) / TILE;
    i64 top = blockIdx.x / across * TILE, left = blockIdx.x % across * TILE;
    int y = threadIdx.x / APART, x = threadIdx.x % APART;
    unsigned count = 0;
    for (i64 at = 0; at < a.depth;) {
        T sum[OWN][OWN] = {};
#pragma unroll 1
        for (int tile = 0; tile < Way::TILES; tile++, at += TERMS) {
            __syncthreads();
            a.load(as, top, at);
            b.load(bs, left, at);
            __syncthreads();
            Way::add(as, bs, y, x, sum);
        }
        int level = 0;
#pragma unroll 1
        for (; count >> level & 1; level++)
#pragma unroll
            for (int i = 0; i < OWN; i++)
#pragma unroll
                for (int j = 0; j < OWN; j++) sum[i][j] = Way::plus(waiting[level][i][j], sum[i][j]);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < OWN; j++) waiting[level][i][j] = sum[i][j];
        count++;
    }
    T sum[OWN][OWN] = {};
#pragma unroll 1
    for (int level = 0; level < LEVELS; level++)
        if (count >> level & 1)
#pragma unroll
            for (int i = 0; i < OWN; i++)
#pragma unroll
                for (int j = 0; j < OWN; j++) sum[i][j] = Way::plus(waiting[level][i][j], sum[i][j]);
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            i64 row = top + y + i * APART, column = left + x + j * APART;
            if (row < a.extent && column < b.extent) out[row * b.extent + column] = sum[i][j];
        }
}

// `out[m, n] = a[m, k] b[k, n]`, dense; strides in elements. Operands are f64, or f32 if they are narrow.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    akg_product_f64(const void *a, i64 a_row, i64 a_col, i64 a_narrow, const void *b, i64 b_row, i64 b_col, i64 b_narrow,
                    double *out, i64 m, i64 k, i64 n) {
    product<Fused>({a, m, k, a_row, a_col, a_narrow}, {b, n, k, b_col, b_row, b_narrow}, out);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    akg_product_f32(const void *a, i64 a_row, i64 a_col, i64, const void *b, i64 b_row, i64 b_col, i64,
                    float *out, i64 m, i64 k, i64 n) {
    product<Pairwise>({a, m, k, a_row, a_col, 1}, {b, n, k, b_col, b_row, 1}, out);
}
