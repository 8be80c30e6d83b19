// Attempts to escape from confinement, one for each name: `attempts NAME`. What is attacked is in the environment:
// OUTSIDE (a directory), VICTIM (a process of the same user), TCP, UDP (ports), ABSTRACT (the name of a socket). An
// attempt whose harm cannot be seen from outside prints `ESCAPED` when it succeeds. Compiled with KERNEL, the same
// attempts are a kernel: its input is the name and the environment, its output whether the attempt succeeded.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

static char *self;

static const char *outside(const char *name) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 4096, "%s/%s", getenv("OUTSIDE"), name);
    return path;
}
static int victim(void) { return atoi(getenv("VICTIM")); }
static int port(const char *name) { return atoi(getenv(name)); }
static int has_escaped;
static void escaped(void) { has_escaped = 1; puts("ESCAPED"); fflush(stdout); }
static void escaped_if(int success) { if (success) escaped(); }
static void sleep_ms(int ms) { usleep(ms * 1000); }
// Success is to have too much for a while.
static void kept_if(int success) { if (success) { sleep_ms(3000); escaped(); } }
static void put(const char *path, int flags) {
    int file = open(path, flags, 0666);
    if (file >= 0) { (void)!write(file, "changed", 7); close(file); }
}
static void show(const char *path) {
    char text[1 << 16];
    int file = open(path, O_RDONLY);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text);
    for (ssize_t i = 0; i < n; i++) putchar(text[i] ? text[i] : '\n');
    has_escaped = n > 0;
}
static const char *of_victim(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "/proc/%d/%s", victim(), name);
    return path;
}

// Files.
static void create(void) { put(outside("new"), O_WRONLY | O_CREAT); }
static void overwrite(void) { put(outside("victim"), O_WRONLY); }
static void append(void) { put(outside("victim"), O_WRONLY | O_APPEND); }
static void cut(void) { (void)!truncate(outside("victim"), 0); }
static void delete(void) { unlink(outside("victim")); }
static void move(void) { rename(outside("victim"), outside("moved")); }
static void fetch(void) { rename(outside("victim"), "fetched"); }
static void make_directory(void) { mkdir(outside("new"), 0777); }
static void make_fifo(void) { mkfifo(outside("new"), 0666); }
static void mode(void) { chmod(outside("victim"), 0777); }
static void times(void) { struct timeval t[2] = {{1, 0}, {1, 0}}; utimes(outside("victim"), t); }
static void attribute(void) { setxattr(outside("victim"), "user.akg", "x", 1, 0); }
static void traversal(void) {
    char path[8192] = "";
    for (int i = 0; i < 40; i++) strcat(path, "../");
    strcat(path, outside("new") + 1);
    put(path, O_WRONLY | O_CREAT);
}
static void through_symlink(void) { (void)!symlink(getenv("OUTSIDE"), "link"); put("link/new", O_WRONLY | O_CREAT); }
static void through_hardlink(void) { (void)!link(outside("victim"), "hard"); put("hard", O_WRONLY); }
static void through_root(void) {
    char path[8192];
    snprintf(path, sizeof path, "/proc/self/root%s", outside("new"));
    put(path, O_WRONLY | O_CREAT);
}
static void through_victim(void) {
    char path[8192];
    snprintf(path, sizeof path, "/proc/%d/root%s", victim(), outside("new"));
    put(path, O_WRONLY | O_CREAT);
}
static void own_program(void) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", self);
    unlink(copy);
    put(copy, O_WRONLY | O_CREAT);
}
static void shared_file(void) {
    char path[256];
    snprintf(path, sizeof path, "/dev/shm/%s", getenv("ABSTRACT"));
    put(path, O_WRONLY | O_CREAT);
}
static void temporary_file(void) {
    char path[256];
    snprintf(path, sizeof path, "/tmp/%s", getenv("ABSTRACT"));
    put(path, O_WRONLY | O_CREAT);
}
static void read_key(void) { show(outside("key")); }
static void list(void) {
    DIR *directory = opendir(getenv("OUTSIDE"));
    for (struct dirent *entry; directory && (entry = readdir(directory));) { puts(entry->d_name); has_escaped = 1; }
}
static void watch(void) {
    int queue = syscall(SYS_inotify_init1, 0);
    escaped_if(syscall(SYS_inotify_add_watch, queue, getenv("OUTSIDE"), 0x100) >= 0);
}

// Other processes.
static void read_environment(void) { show(of_victim("environ")); }
static void read_arguments(void) { show(of_victim("cmdline")); }
static void read_memory(void) {
    FILE *maps = fopen(of_victim("maps"), "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start;
        char byte;
        if (!strstr(line, "[stack]") || sscanf(line, "%lx", &start) != 1) continue;
        unsigned long end = strtoul(strchr(line, '-') + 1, 0, 16);
        struct iovec here = {&byte, 1}, there = {(void *)(end - 1), 1};
        escaped_if(process_vm_readv(victim(), &here, 1, &there, 1, 0) == 1);
    }
}
static void open_memory(void) { escaped_if(open(of_victim("mem"), O_RDWR) >= 0); }
static void attach(void) {
    if (ptrace(PTRACE_SEIZE, victim(), 0, 0) == 0) { escaped(); ptrace(PTRACE_DETACH, victim(), 0, 0); }
}
static void steal_descriptor(void) {
    int handle = syscall(SYS_pidfd_open, victim(), 0);
    escaped_if(handle >= 0 && syscall(SYS_pidfd_getfd, handle, 0, 0) >= 0);
}
static void kill_victim(void) { kill(victim(), SIGKILL); }
static void kill_by_name(void) {
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        char path[512], line[4096] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int file = open(path, O_RDONLY);
        if (file < 0) continue;
        ssize_t n = read(file, line, sizeof line - 1);
        for (ssize_t i = 0; i < n; i++) if (!line[i]) line[i] = ' ';
        close(file);
        if (strstr(line, getenv("ABSTRACT"))) kill(atoi(entry->d_name), SIGKILL);
    }
}
static void kill_through_handle(void) {
    int handle = syscall(SYS_pidfd_open, victim(), 0);
    syscall(424 /* pidfd_send_signal */, handle, SIGKILL, 0, 0);
}
static void slow_down(void) { setpriority(PRIO_PROCESS, victim(), 19); }
static void pin(void) {
    cpu_set_t set;
    if (sched_getaffinity(victim(), sizeof set, &set) == 0) escaped_if(sched_setaffinity(victim(), sizeof set, &set) == 0);
}
static void limit_victim(void) { struct rlimit limit = {7, 7}; prlimit(victim(), RLIMIT_NOFILE, &limit, 0); }
static void sacrifice(void) { put(of_victim("oom_score_adj"), O_WRONLY); int f = open(of_victim("oom_score_adj"), O_WRONLY); (void)!write(f, "500", 3); }

// Outliving.
static void live_on(void) { signal(SIGTERM, SIG_IGN); signal(SIGHUP, SIG_IGN); execlp("sleep", "sleep", getenv("SLEEP"), (char *)0); _exit(1); }
static void daemonize(void) {
    if (fork() == 0) { setsid(); if (fork() == 0) { for (int i = 0; i < 64; i++) close(i); live_on(); } _exit(0); }
    sleep_ms(100);
}
static void daemonize_below(void) {
    if (fork() == 0) { prctl(PR_SET_CHILD_SUBREAPER, 1); setsid(); daemonize(); for (int i = 0; i < 64; i++) close(i); for (;;) pause(); }
    sleep_ms(300);
}
static void kill_supervisor(void) {
    daemonize();
    if (getppid() > 1) kill(getppid(), SIGKILL);
    sleep_ms(2000);
}
static void hang(void) { signal(SIGTERM, SIG_IGN); daemonize(); for (;;) pause(); }

// Too much.
static void fill_one(void) {
    static char block[1 << 20];
    int file = open("big", O_WRONLY | O_CREAT, 0666), n = 0;
    while (n < 200 && write(file, block, sizeof block) == sizeof block) { n++; sleep_ms(5); }
    kept_if(n == 200);
}
static void fill_many(void) {
    static char block[1 << 20];
    int n = 0;
    for (; n < 200; n++) {
        char name[32];
        snprintf(name, sizeof name, "part%d", n);
        int file = open(name, O_WRONLY | O_CREAT, 0666);
        if (write(file, block, sizeof block) != sizeof block) break;
        close(file);
        sleep_ms(5);
    }
    kept_if(n == 200);
}
static void fill_hidden(void) {
    static char block[1 << 20];
    int n = 0;
    for (; n < 200; n++) {
        int file = open("hidden", O_WRONLY | O_CREAT, 0666);
        unlink("hidden");
        if (write(file, block, sizeof block) != sizeof block) break;
        sleep_ms(5);
    }
    kept_if(n == 200);
}
static void fill_reserved(void) {
    int file = open("reserved", O_WRONLY | O_CREAT, 0666);
    kept_if(posix_fallocate(file, 0, 200 << 20) == 0);
}
static void fill_names(void) {
    int n = 0;
    for (; n < 50000; n++) {
        char name[32];
        snprintf(name, sizeof name, "%d", n);
        int file = open(name, O_WRONLY | O_CREAT, 0666);
        if (file < 0) break;
        close(file);
    }
    kept_if(n == 50000);
}
static void fork_bomb(void) {
    int n = 0;
    for (; n < 2000; n++) {
        int child = fork();
        if (child < 0) break;
        if (child == 0) { for (;;) pause(); }
        usleep(700);
    }
    kept_if(n == 2000);
}
static void *wait_forever(void *nothing) { for (;;) pause(); return nothing; }
static void thread_bomb(void) {
    int n = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 16);
    for (; n < 2000; n++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, wait_forever, 0)) break;
        usleep(700);
    }
    kept_if(n == 2000);
}
static int touch(int flags, int megabytes) {
    for (int n = 0; n < megabytes; n += 8) {
        char *memory = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 0;
        memset(memory, 1, 8 << 20);
        sleep_ms(5);
    }
    return 1;
}
static void memory_bomb(void) { kept_if(touch(MAP_PRIVATE, 1024)); }
static void shared_memory_bomb(void) { kept_if(touch(MAP_SHARED, 1024)); }
static void family_memory_bomb(void) {
    int children = 0;
    for (int n = 0; n < 8; n++) {
        int child = fork();
        if (child == 0) { touch(MAP_PRIVATE, 128); for (;;) pause(); }
        children += child > 0;
    }
    sleep_ms(1000);
    kept_if(children == 8);
}
static void anonymous_file_bomb(void) {
    static char block[1 << 20];
    int n = 0;
    for (; n < 600; n++) {
        int file = syscall(SYS_memfd_create, "x", 0);
        if (write(file, block, sizeof block) != sizeof block) break;
    }
    kept_if(n == 600);
}
static void flood(void) {
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    for (int n = 0; n < 300; n++) if (write(1, block, sizeof block) < 0) return;
}
static void raise_limits(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    escaped_if(setrlimit(RLIMIT_CORE, &all) == 0 || setrlimit(RLIMIT_FSIZE, &all) == 0);
}
static void dump_core(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &all);
    abort();
}
static void hurry(void) {
    struct sched_param parameters = {1};
    escaped_if(sched_setscheduler(0, SCHED_FIFO, &parameters) == 0 || setpriority(PRIO_PROCESS, 0, -10) == 0);
}
static void leaked_descriptors(void) { for (int i = 3; i < 1024; i++) (void)!write(i, "changed", 7); }

// Networks.
static void reach(int kind) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons(port(kind == SOCK_STREAM ? "TCP" : "UDP"));
    int s = socket(AF_INET, kind, 0);
    if (connect(s, (struct sockaddr *)&address, sizeof address) == 0) (void)!write(s, "hello", 5);
}
static void tcp(void) { reach(SOCK_STREAM); }
static void udp(void) { reach(SOCK_DGRAM); }
static void reach_unix(int abstract) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = abstract ? getenv("ABSTRACT") : outside("socket");
    strncpy(address.sun_path + abstract, name, sizeof address.sun_path - 2);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(s, (struct sockaddr *)&address, sizeof(sa_family_t) + abstract + strlen(name)) == 0) (void)!write(s, "hello", 5);
}
static void unix_path(void) { reach_unix(0); }
static void unix_abstract(void) { reach_unix(1); }
static void listen_tcp(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    escaped_if(bind(s, (struct sockaddr *)&address, sizeof address) == 0 && listen(s, 1) == 0);
}
static void netlink(void) { escaped_if(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) >= 0); }
static void other_numbers(void) {
#ifdef __x86_64__
    escaped_if(syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0) >= 0);
    long result = 359; // socket, for 32-bit programs
    __asm__ volatile("int $0x80" : "+a"(result) : "b"(AF_INET), "c"(SOCK_STREAM), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    escaped_if(result >= 0);
#endif
}

// The kernel.
static void system_memory(void) { escaped_if(shmget(port("TCP") + 0x5a0000, 4096, IPC_CREAT | 0600) >= 0); }
static void system_queue(void) { escaped_if(msgget(port("TCP") + 0x5a0000, IPC_CREAT | 0600) >= 0); }
static void mount_over(void) { mkdir("m", 0777); escaped_if(mount("none", "m", "tmpfs", 0, 0) == 0 && umount("m") == 0); }
static void new_root(void) { escaped_if(chroot(".") == 0); }
static void new_user(void) { escaped_if(unshare(CLONE_NEWUSER) == 0); }
static void clone_user(void) {
    int child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    escaped_if(child > 0);
}
static void clone_user_again(void) {
    uint64_t arguments[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    int child = syscall(SYS_clone3, arguments, 64);
    if (child == 0) _exit(0);
    escaped_if(child > 0);
}
static void join_victim(void) {
    int file = open(of_victim("ns/net"), O_RDONLY);
    escaped_if(file >= 0 && setns(file, CLONE_NEWNET) == 0);
}
static void keys(void) { escaped_if(syscall(SYS_keyctl, 0, -4, 1) > 0 || syscall(SYS_add_key, "user", "akg", "x", 1, -1) > 0); }
static void bpf(void) { uint32_t map[32] = {2, 4, 4, 1}; escaped_if(syscall(SYS_bpf, 0, map, sizeof map) >= 0); }
static void io_uring(void) { char parameters[128] = {0}; escaped_if(syscall(SYS_io_uring_setup, 1, parameters) >= 0); }
static void perf(void) {
    uint64_t attributes[16] = {(uint64_t)112 << 32 | 1};
    attributes[5] = 1 << 5; // leaves the kernel out, which ordinary users must
    escaped_if(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0) >= 0);
}
static void fault_handling(void) { escaped_if(syscall(SYS_userfaultfd, 1) >= 0); }
static void persona(void) { escaped_if(syscall(SYS_personality, 0x0040000) != -1); }
static void host_name(void) {
    char name[256];
    gethostname(name, sizeof name);
    escaped_if(sethostname(name, strlen(name)) == 0);
}
static void kernel_log(void) { char text[64]; escaped_if(syscall(SYS_syslog, 3, text, sizeof text) >= 0); }
static void from_memory(void) {
    int file = syscall(SYS_memfd_create, "program", 0), from = open(self, O_RDONLY);
    static char block[1 << 16];
    for (ssize_t n; (n = read(from, block, sizeof block)) > 0;) if (write(file, block, n) != n) return;
    char *arguments[] = {"attempts", "say", 0};
    fexecve(file, arguments, environ);
}
static void say(void) { escaped(); }

static const struct { const char *name; void (*run)(void); } ATTEMPTS[] = {
#define ATTEMPT(name) {#name, name},
    ATTEMPT(create) ATTEMPT(overwrite) ATTEMPT(append) ATTEMPT(cut) ATTEMPT(delete) ATTEMPT(move) ATTEMPT(fetch)
    ATTEMPT(make_directory) ATTEMPT(make_fifo) ATTEMPT(mode) ATTEMPT(times) ATTEMPT(attribute) ATTEMPT(traversal)
    ATTEMPT(through_symlink) ATTEMPT(through_hardlink) ATTEMPT(through_root) ATTEMPT(through_victim)
    ATTEMPT(own_program) ATTEMPT(shared_file) ATTEMPT(temporary_file) ATTEMPT(read_key) ATTEMPT(list) ATTEMPT(watch)
    ATTEMPT(read_environment) ATTEMPT(read_arguments) ATTEMPT(read_memory) ATTEMPT(open_memory) ATTEMPT(attach)
    ATTEMPT(steal_descriptor) ATTEMPT(kill_victim) ATTEMPT(kill_by_name) ATTEMPT(kill_through_handle)
    ATTEMPT(slow_down) ATTEMPT(pin) ATTEMPT(limit_victim) ATTEMPT(sacrifice) ATTEMPT(daemonize)
    ATTEMPT(daemonize_below) ATTEMPT(kill_supervisor) ATTEMPT(hang) ATTEMPT(fill_one) ATTEMPT(fill_many)
    ATTEMPT(fill_hidden) ATTEMPT(fill_reserved) ATTEMPT(fill_names) ATTEMPT(fork_bomb) ATTEMPT(thread_bomb)
    ATTEMPT(memory_bomb) ATTEMPT(shared_memory_bomb) ATTEMPT(family_memory_bomb) ATTEMPT(anonymous_file_bomb)
    ATTEMPT(flood) ATTEMPT(raise_limits) ATTEMPT(dump_core) ATTEMPT(hurry) ATTEMPT(leaked_descriptors) ATTEMPT(tcp)
    ATTEMPT(udp) ATTEMPT(unix_path) ATTEMPT(unix_abstract) ATTEMPT(listen_tcp) ATTEMPT(netlink)
    ATTEMPT(other_numbers) ATTEMPT(system_memory) ATTEMPT(system_queue) ATTEMPT(mount_over) ATTEMPT(new_root)
    ATTEMPT(new_user) ATTEMPT(clone_user) ATTEMPT(clone_user_again) ATTEMPT(join_victim) ATTEMPT(keys) ATTEMPT(bpf)
    ATTEMPT(io_uring) ATTEMPT(perf) ATTEMPT(fault_handling) ATTEMPT(persona) ATTEMPT(host_name) ATTEMPT(kernel_log)
    ATTEMPT(from_memory) ATTEMPT(say)
};

static int attempt(const char *name) {
    for (size_t i = 0; i < sizeof ATTEMPTS / sizeof *ATTEMPTS; i++) {
        if (strcmp(name, ATTEMPTS[i].name) == 0) {
            ATTEMPTS[i].run();
            return 0;
        }
    }
    fputs("unknown attempt\n", stderr);
    return 2;
}

#ifdef KERNEL
void kernel(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
    char *name = tensors[0], *variable = name + strlen(name) + 1;
    uint8_t *result = tensors[1];
    // The list of variables is restored: a kernel that leaves another is rejected.
    char **before = environ;
    for (; *variable; variable += strlen(variable) + 1) putenv(variable);
    self = getenv("SELF");
    if (attempt(name)) abort();
    environ = before;
    *result = has_escaped;
}
#else
int main(int count, char **arguments) {
    self = arguments[0];
    return count > 1 ? attempt(arguments[1]) : 2;
}
#endif
