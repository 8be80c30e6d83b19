//! Leave-behinds.

use akg_core::verdict::FailureKind;

/// A candidate that leaves something behind.
pub(crate) struct Planted {
    pub(crate) name: &'static str,
    pub(crate) body: &'static str,
    pub(crate) kind: FailureKind,
    /// How the evidence names it.
    pub(crate) evidence: &'static str,
}

const fn left(name: &'static str, body: &'static str, evidence: &'static str) -> Planted {
    Planted {
        name,
        body,
        kind: FailureKind::LeftBehind,
        evidence,
    }
}

const fn crashed(name: &'static str, body: &'static str, evidence: &'static str) -> Planted {
    Planted {
        name,
        body,
        kind: FailureKind::Crashed,
        evidence,
    }
}

/// What kernels leave.
pub(crate) const KERNELS: &[Planted] = &[
    // Arithmetic.
    left(
        "rounds down",
        "fesetround(FE_DOWNWARD);",
        "rounding towards minus infinity",
    ),
    left(
        "rounds up",
        "fesetround(FE_UPWARD);",
        "rounding towards plus infinity",
    ),
    left(
        "rounds towards zero",
        "fesetround(FE_TOWARDZERO);",
        "rounding towards zero",
    ),
    left(
        "one range rounds up",
        "if (last == 4) fesetround(FE_UPWARD);",
        "in kernel thread",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "flushes to zero",
        "_mm_setcsr(_mm_getcsr() | 0x8000);",
        "flush-to-zero (FTZ) on",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "denormals are zero",
        "_mm_setcsr(_mm_getcsr() | 0x0040);",
        "denormals-are-zero (DAZ) on",
    ),
    #[cfg(target_arch = "x86_64")]
    left("both", "_mm_setcsr(_mm_getcsr() | 0x8040);", "(FTZ) on"),
    #[cfg(target_arch = "x86_64")]
    left(
        "one range flushes",
        "if (first == 0) _mm_setcsr(_mm_getcsr() | 0x8000);",
        "flush-to-zero (FTZ) on (MXCSR",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "unmasks exceptions",
        "feclearexcept(FE_ALL_EXCEPT); feenableexcept(FE_DIVBYZERO);",
        "exceptions unmasked",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "less x87 precision",
        "uint16_t w = 0x027f; asm volatile(\"fldcw %0\" :: \"m\"(w));",
        "reduced x87 precision",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "x87 rounds down",
        "uint16_t w = 0x077f; asm volatile(\"fldcw %0\" :: \"m\"(w));",
        "x87 control word",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "MMX without emms",
        "asm volatile(\"pxor %%mm0, %%mm0\" ::: \"mm0\");",
        "x87 or MMX registers in use",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "direction flag",
        "asm volatile(\"std\");",
        "the direction flag set",
    ),
    // Signals.
    left("SIGSEGV handler", "signal(SIGSEGV, on_signal);", "`rt_sigaction`"),
    left("SIGFPE handler", "signal(SIGFPE, on_signal);", "`rt_sigaction`"),
    left("SIGSYS handler", "signal(SIGSYS, on_signal);", "`rt_sigaction`"),
    left("ignored signal", "signal(SIGUSR1, SIG_IGN);", "`rt_sigaction`"),
    left("no handler", "signal(SIGSEGV, SIG_DFL);", "`rt_sigaction`"),
    left(
        "blocked signal",
        "sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1); pthread_sigmask(SIG_BLOCK, &s, 0);",
        "SIGUSR1 is blocked in the thread `akg-kernel-",
    ),
    left(
        "blocked faults",
        "if (first == 0) { sigset_t s; sigfillset(&s); pthread_sigmask(SIG_SETMASK, &s, 0); }",
        "is blocked in the thread",
    ),
    left(
        "signal stack",
        "static const size_t n = 1 << 16; stack_t s = {}; s.ss_sp = malloc(n); s.ss_size = n; sigaltstack(&s, 0);",
        "`sigaltstack`",
    ),
    // Memory.
    left(
        "map over a guard",
        "auto guard = map_of(y) - 4096; mmap(guard, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);",
        "`mmap`",
    ),
    left(
        "map at an address",
        "mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);",
        "`mmap`",
    ),
    left(
        "map of a file",
        "int f = open(\"/proc/self/exe\", O_RDONLY | O_CLOEXEC); mmap(0, 4096, PROT_READ, MAP_PRIVATE, f, 0);",
        "`mmap`",
    ),
    left(
        "shared map",
        "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);",
        "`mmap`",
    ),
    left(
        "memory for code",
        "mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
        "`mmap`",
    ),
    left(
        "memory that stays",
        "mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
        "mapped and not unmapped",
    ),
    left(
        "read-only memory that stays",
        "mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
        "were mapped",
    ),
    left(
        "moves to an address",
        "auto p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); \
         mremap(p, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)p + 4096);",
        "`mremap`",
    ),
    left(
        "moves a tensor",
        "mremap(map_of(x), 4096, 4096, MREMAP_MAYMOVE);",
        "`mremap`",
    ),
    left(
        "doubles a tensor",
        "mremap(map_of(y), 0, 4096, MREMAP_MAYMOVE);",
        "`mremap`",
    ),
    left("unmaps a guard", "munmap(map_of(y) - 4096, 4096);", "`munmap`"),
    left(
        "writable input",
        "mprotect(map_of(x), 4096, PROT_READ | PROT_WRITE);",
        "`mprotect`",
    ),
    left(
        "accessible guard",
        "mprotect(map_of(y) - 4096, 4096, PROT_READ | PROT_WRITE);",
        "`mprotect`",
    ),
    left(
        "executable heap",
        "auto p = aligned_alloc(4096, 4096); mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);",
        "`mprotect`",
    ),
    left(
        "writable constants",
        "mprotect((void *)((uintptr_t)\"constant\" & ~4095ul), 4096, PROT_READ | PROT_WRITE);",
        "no longer mapped",
    ),
    left(
        "unmaps the guard of its stack",
        "char local; munmap(map_of(&local) - 4096, 4096);",
        "the guard of a stack",
    ),
    left(
        "writable guard of its stack",
        "char local; mprotect(map_of(&local) - 4096, 4096, PROT_READ | PROT_WRITE);",
        "the guard of a stack",
    ),
    // Descriptors, directories, limits.
    left(
        "closes descriptors",
        "for (int i = 0; i < 10; i++) close(i);",
        "`close`",
    ),
    left("closes the reply", "close(4);", "`close`"),
    left(
        "leaves a file open",
        "open(\"/dev/null\", O_RDONLY);",
        "was left open",
    ),
    left(
        "leaves a directory open",
        "open(\"/proc/self\", O_RDONLY | O_DIRECTORY);",
        "was left open",
    ),
    left("copies a descriptor", "dup(1);", "`dup`"),
    left(
        "copies a descriptor in another way",
        "fcntl(1, F_DUPFD_CLOEXEC, 20);",
        "descriptor 20",
    ),
    left("replaces a descriptor", "dup2(1, 0);", "`dup"),
    left("makes a pipe", "int p[2]; pipe(p);", "`pipe"),
    left("makes a counter", "eventfd(0, 0);", "`eventfd"),
    left("makes a socket", "socket(AF_UNIX, SOCK_STREAM, 0);", "`socket`"),
    left(
        "makes a file in memory",
        "syscall(SYS_memfd_create, \"x\", 0);",
        "`memfd_create`",
    ),
    left("changes the directory", "chdir(\"/\");", "`chdir`"),
    left("changes the mask of files", "umask(0777);", "`umask`"),
    left(
        "changes a limit",
        "rlimit r; getrlimit(RLIMIT_STACK, &r); r.rlim_cur /= 2; setrlimit(RLIMIT_STACK, &r);",
        "limit",
    ),
    left(
        "changes the priority",
        "setpriority(PRIO_PROCESS, 0, 5);",
        "`setpriority`",
    ),
    left(
        "changes the scheduling",
        "sched_param p = {}; sched_setscheduler(0, SCHED_BATCH, &p);",
        "`sched_setscheduler`",
    ),
    left(
        "pins itself",
        "cpu_set_t s; CPU_ZERO(&s); CPU_SET(0, &s); sched_setaffinity(0, sizeof s, &s);",
        "`sched_setaffinity`",
    ),
    left("renames its thread", "prctl(PR_SET_NAME, \"other\");", "`prctl`"),
    left("is not dumped", "prctl(PR_SET_DUMPABLE, 0);", "`prctl`"),
    // Environment.
    left(
        "sets a variable",
        "setenv(\"AKG_LEFT\", \"1\", 1);",
        "environment variable",
    ),
    left(
        "puts a variable",
        "static char text[] = \"AKG_LEFT=1\"; putenv(text);",
        "environment variable",
    ),
    left(
        "removes a variable",
        "unsetenv(\"TMPDIR\");",
        "environment variable",
    ),
    left(
        "changes a variable in place",
        "getenv(\"TMPDIR\")[0] = '#';",
        "environment variable `TMPDIR` was changed",
    ),
    left("clears the environment", "clearenv();", "environment variable"),
    // Timers.
    left(
        "interval timer",
        "itimerval t = {{1, 0}, {1, 0}}; setitimer(ITIMER_REAL, &t, 0);",
        "`setitimer`",
    ),
    left("alarm", "alarm(1);", "`alarm`"),
    left(
        "timer",
        "timer_t t; timer_create(CLOCK_MONOTONIC, 0, &t);",
        "`timer_create`",
    ),
    left(
        "timer with a descriptor",
        "timerfd_create(CLOCK_MONOTONIC, 0);",
        "`timerfd_create`",
    ),
    #[cfg(target_arch = "x86_64")]
    left(
        "other thread storage",
        "unsigned long fs; asm volatile(\"mov %%fs:0, %0\" : \"=r\"(fs)); syscall(SYS_arch_prctl, 0x1002, fs);",
        "`arch_prctl`",
    ),
    // Processes and threads.
    crashed(
        "starts a thread",
        "pthread_t t; pthread_create(&t, 0, idle, 0);",
        "start no threads or processes",
    ),
    crashed(
        "starts a process",
        "if (fork() == 0) for (;;) pause();",
        "start no threads or processes",
    ),
    crashed(
        "a chain of processes",
        "while (fork() == 0) setsid(); _exit(0);",
        "start no threads or processes",
    ),
    crashed(
        "starts a program",
        "char *a[] = {(char *)\"true\", 0}; execv(\"/bin/true\", a);",
        "`execve`",
    ),
];

/// What initialisers of shared objects leave.
pub(crate) const INITIALISERS: &[Planted] = &[
    left(
        "rounds up",
        "fesetround(FE_UPWARD);",
        "rounding towards plus infinity (MXCSR",
    ),
    left("SIGSEGV handler", "signal(SIGSEGV, on_signal);", "`rt_sigaction`"),
    left(
        "blocked signal",
        "sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); pthread_sigmask(SIG_BLOCK, &s, 0);",
        "SIGUSR2 is blocked",
    ),
    left(
        "memory for code",
        "mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
        "with rights rwxp were mapped",
    ),
    left(
        "shared memory",
        "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);",
        "were mapped",
    ),
    left(
        "leaves a file open",
        "open(\"/dev/null\", O_RDONLY);",
        "was left open",
    ),
    left(
        "sets a variable",
        "setenv(\"AKG_LEFT\", \"1\", 1);",
        "environment variable",
    ),
    crashed(
        "starts a thread",
        "pthread_t t; pthread_create(&t, 0, idle, 0);",
        "start no threads or processes",
    ),
];
