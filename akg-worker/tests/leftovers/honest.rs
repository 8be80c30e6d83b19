//! Candidates that use what others leave behind, and restore it.

/// Names and kernels.
pub(crate) const KERNELS: &[(&str, &str)] = &[
    ("nothing", ""),
    (
        "memory of its own",
        "auto p = (char *)mmap(0, 1 << 22, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0); \
         if (p == MAP_FAILED) abort(); memset(p, 1, 1 << 22); munmap(p, 1 << 22);",
    ),
    (
        "large blocks",
        "for (size_t n = 1 << 10; n <= 64 << 20; n *= 4) { auto p = (char *)malloc(n); if (!p) abort(); p[0] = p[n - 1] = 1; free(p); }",
    ),
    (
        "blocks that grow",
        "size_t n = 1 << 12; auto p = (char *)malloc(n); for (; n < 32 << 20; n *= 2) { p = (char *)realloc(p, 2 * n); if (!p) abort(); p[2 * n - 1] = 1; } free(p);",
    ),
    (
        "many blocks at once",
        "std::vector<std::vector<float>> all; for (int i = 0; i < 2000; i++) all.emplace_back(1 + i * 7 % 5000, 1.0f); if (all[7][0] != 1) abort();",
    ),
    (
        "aligned blocks",
        "for (size_t n = 64; n <= 1 << 21; n *= 2) { auto p = aligned_alloc(n, 4 * n); if (!p) abort(); memset(p, 0, 4 * n); free(p); }",
    ),
    (
        "rounding, restored",
        "int before = fegetround(); fesetround(FE_UPWARD); volatile float z = x[0] / 3; fesetround(before); (void)z;",
    ),
    (
        "exceptional values",
        "volatile double zero = 0, tiny = 1e-310, huge = 1e308; volatile double a = 1 / zero, b = tiny / 3, c = huge * huge, d = std::sqrt(-1 - zero), e = (int)(huge); \
         (void)a; (void)b; (void)c; (void)d; (void)e;",
    ),
    (
        "long double",
        "volatile long double a = x[1]; a = std::sqrt(a + 2) / 3; volatile double b = a; (void)b;",
    ),
    (
        "signals, restored",
        "sigset_t s, before; sigfillset(&s); pthread_sigmask(SIG_BLOCK, &s, &before); pthread_sigmask(SIG_SETMASK, &before, 0);",
    ),
    (
        "asks for handlers",
        "struct sigaction a; sigaction(SIGSEGV, 0, &a); stack_t s; sigaltstack(0, &s); rlimit r; getrlimit(RLIMIT_AS, &r); getenv(\"HOME\"); sysconf(_SC_NPROCESSORS_ONLN);",
    ),
    (
        "a file, closed",
        "auto f = fopen(\"/proc/cpuinfo\", \"re\"); char c[99]; if (f) { fgets(c, sizeof c, f); fclose(f); }",
    ),
    ("prints", "printf(\"%f\\n\", x[0]); fflush(stdout);"),
    (
        "exceptions",
        "for (int i = 0; i < 10; i++) try { throw std::runtime_error(\"no\"); } catch (const std::exception &e) { if (e.what()[0] != 'n') abort(); }",
    ),
    (
        "streams",
        "std::ostringstream s; s << x[1] << ' ' << 42; if (s.str() != \"1 42\") abort();",
    ),
    (
        "clocks",
        "timespec t; clock_gettime(CLOCK_MONOTONIC, &t); usleep(100); struct timeval v; gettimeofday(&v, 0);",
    ),
    (
        "sorts",
        "std::vector<float> v(100000); std::generate(v.begin(), v.end(), [i = 0u]() mutable { return float(i++ * 2654435761u); }); std::sort(v.begin(), v.end());",
    ),
    (
        "rights of its own memory",
        "auto p = (char *)mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); mprotect(p, 4096, PROT_READ | PROT_WRITE); p[0] = 1; \
         madvise(p, 4096, MADV_DONTNEED); munmap(p, 8192);",
    ),
    #[cfg(target_arch = "x86_64")]
    (
        "flushing, restored",
        "auto before = _mm_getcsr(); _mm_setcsr(before | 0x8040); volatile float z = 1e-39f * x[1]; _mm_setcsr(before); (void)z;",
    ),
    #[cfg(target_arch = "x86_64")]
    (
        "MMX with emms",
        "asm volatile(\"pxor %%mm0, %%mm0\\n\\temms\" ::: \"mm0\");",
    ),
];
