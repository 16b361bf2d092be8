#include "process/system_call_filter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "options/options.hpp"

namespace tandem::cli {
namespace {

// By name: an architecture may lack some, and another version of the library may not know all.
constexpr const char* always[] = {
    // clients: accepting and serving, without calls that make, bind or connect sockets
    "accept", "accept4", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "getpeername",
    "getsockname", "getsockopt", "poll", "ppoll", "pselect6", "recvfrom", "recvmmsg", "recvmsg", "select", "setsockopt",
    "shutdown",
    // open files
    "close", "dup", "dup2", "dup3", "fstat", "getdents64", "lseek", "pread64", "read", "readv", "write", "writev",
    // existence and attributes of files
    "access", "faccessat", "faccessat2", "lstat", "newfstatat", "readlink", "readlinkat", "stat", "statx",
    // sanitizers use a pipe to check whether memory is readable
    "pipe", "pipe2",
    // memory, never executable
    "brk", "madvise", "mincore", "mremap", "munmap",
    // threads
    "exit", "exit_group", "futex", "futex_waitv", "futex_wait", "futex_wake", "getcpu", "gettid", "membarrier", "rseq",
    "sched_getaffinity", "sched_setaffinity", "sched_yield", "set_robust_list",
    // signals
    "eventfd2", "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack",
    "signalfd4",
    // time
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time", "timerfd_create",
    "timerfd_gettime", "timerfd_settime",
    // identity of process and machine
    "getegid", "geteuid", "getgid", "getpid", "getppid", "getrandom", "getrusage", "getuid", "sysinfo", "times",
    "uname"};

// Where a file system cannot allocate, the C library writes, and asks for the block size.
constexpr const char* of_memory_file[] = {"fallocate", "fdatasync", "flock",    "fstatfs",         "fsync",
                                          "ftruncate", "msync",     "pwrite64", "sync_file_range", "sync_file_range2"};

constexpr const char* of_removing_files[] = {"unlink", "unlinkat"};

// No library tries these to see whether they work: a caller has taken over the process.
constexpr const char* of_intruders[] = {
    "bpf",        "execve",   "execveat", "finit_module", "init_module",      "kexec_file_load",
    "kexec_load", "mount",    "ptrace",   "pivot_root",   "process_vm_readv", "process_vm_writev",
    "setresuid",  "setreuid", "setuid"};

class Filter {
 public:
  Filter() : context_(seccomp_init(refused), &seccomp_release) {
    if (context_ == nullptr) fail("make a filter of system calls", ENOMEM);
    set(SCMP_FLTATR_CTL_TSYNC, 1);  // other threads, too
    // System calls of a 32-bit program use another table, of which none is allowed.
    set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    // Optional: without these settings there is more cost or less logging, but no less protection. Refusals go to the
    // audit log. No foreign code runs here, so the slow mitigations that older kernels enable against it are not
    // needed. Calls are looked up in a tree.
    try_to_set(SCMP_FLTATR_CTL_LOG, 1);
    try_to_set(SCMP_FLTATR_CTL_SSB, 1);
    try_to_set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  }

  void allow(std::span<const char* const> names) { add(names, SCMP_ACT_ALLOW); }
  void end_process(std::span<const char* const> names) { add(names, SCMP_ACT_KILL_PROCESS); }

  // Allows the call if `condition` on one argument holds, else refuses it.
  void allow_if(const char* name, scmp_arg_cmp condition) { add(name, SCMP_ACT_ALLOW, {&condition, 1}); }
  void say_there_is_none(const char* name) { add(name, SCMP_ACT_ERRNO(ENOSYS), {}); }

  void load() {
    if (const int error = seccomp_load(context_.get()); error != 0) fail("filter system calls", -error);
  }

 private:
  static constexpr std::uint32_t refused = SCMP_ACT_ERRNO(EPERM);

  [[noreturn]] static void fail(std::string_view what, int error) {
    throw CommandError(EX_OSERR, fmt::format("cannot {}: {}", what, std::generic_category().message(error)));
  }

  void set(scmp_filter_attr attribute, std::uint32_t value) {
    if (const int error = seccomp_attr_set(context_.get(), attribute, value); error != 0)
      fail("filter system calls of all threads", -error);
  }
  void try_to_set(scmp_filter_attr attribute, std::uint32_t value) noexcept {
    static_cast<void>(seccomp_attr_set(context_.get(), attribute, value));
  }

  void add(std::span<const char* const> names, std::uint32_t action) {
    for (const char* name : names) add(name, action, {});
  }
  void add(const char* name, std::uint32_t action, std::span<const scmp_arg_cmp> conditions) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number < 0) return;  // not on this architecture
    const int error = seccomp_rule_add_array(context_.get(), action, number, static_cast<unsigned>(conditions.size()),
                                             conditions.data());
    if (error != 0) fail(fmt::format("filter the system call {}", name), -error);
  }

  std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, decltype(&seccomp_release)> context_;
};

constexpr scmp_arg_cmp equals(unsigned argument, std::uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }
constexpr scmp_arg_cmp has_bits(unsigned argument, std::uint64_t mask, std::uint64_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, bits};
}

}  // namespace

void filter_system_calls(const SystemCallNeeds& needs) {
  Filter filter;
  filter.allow(always);
  if (needs.memory_file) filter.allow(of_memory_file);
  if (needs.removes_files) filter.allow(of_removing_files);
  filter.end_process(of_intruders);

  // Certificates, passwords and /proc are only read.
  constexpr std::uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND;
  filter.allow_if("open", has_bits(1, writing, O_RDONLY));
  filter.allow_if("openat", has_bits(2, writing, O_RDONLY));

  // No memory becomes executable. Libraries cannot be loaded late; none is.
  filter.allow_if("mmap", has_bits(2, PROT_EXEC, 0));
  filter.allow_if("mprotect", has_bits(2, PROT_EXEC, 0));

  // A listener that was shut down could otherwise connect elsewhere by sending.
  filter.allow_if("sendmsg", has_bits(2, MSG_FASTOPEN, 0));
  filter.allow_if("sendto", has_bits(3, MSG_FASTOPEN, 0));
  filter.allow_if("sendmmsg", has_bits(3, MSG_FASTOPEN, 0));
  // Other commands choose the receiver of a signal, and which signal.
  for (const int command : {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC})
    filter.allow_if("fcntl", equals(1, static_cast<std::uint64_t>(command)));

  // Threads only, in the same namespaces; no processes. clone3's flags are in memory, where the filter cannot see them;
  // without clone3 the C library calls clone.
  constexpr std::uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  constexpr std::uint64_t apart = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                  CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_PTRACE | CLONE_VFORK;
  filter.allow_if("clone", has_bits(0, thread | apart, thread));
  filter.say_there_is_none("clone3");

  // Signals to this process only: abort() sends one.
  filter.allow_if("tgkill", equals(0, static_cast<std::uint64_t>(getpid())));
  // Limits may only be read.
  filter.allow_if("prlimit64", equals(2, 0));
  filter.allow_if("prctl", equals(0, PR_SET_NAME));
  filter.allow_if("prctl", equals(0, PR_GET_NAME));
  filter.allow_if("prctl", equals(0, PR_SET_TIMERSLACK));
  filter.load();
}

}  // namespace tandem::cli
