#include "process/system_call_filter.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "options/options.hpp"

namespace tandem::cli {
namespace {

struct Call {
  std::string name;
  std::function<long()> make;
};

// The raw system call: the C library might use another one.
template <class... Arguments>
Call raw(const std::string& name, long number, Arguments... arguments) {
  return {name, [=] { return syscall(number, arguments...); }};
}

// Files and memory that the process has before the filter is set.
struct Before {
  std::string path = testing::TempDir() + "system_call_filter_test_" + std::to_string(getpid());
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Before() {
    if (file < 0 || socket_fd < 0 || memory == MAP_FAILED) std::abort();
  }
  Before(const Before&) = delete;
  Before& operator=(const Before&) = delete;
  ~Before() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

std::vector<Call> refused_calls(const Before& before) {
  static sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  static rlimit limit{1, 1};
  const char* const path = before.path.c_str();
  const char* const other = "/nowhere/system_call_filter_test";
  const auto create = O_WRONLY | O_CREAT | O_CLOEXEC;
  const auto anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  return {
      {"socket", [] { return socket(AF_INET, SOCK_STREAM, 0); }},
      {"socket of Unix", [] { return socket(AF_UNIX, SOCK_DGRAM, 0); }},
      {"connect",
       [=, fd = before.socket_fd] { return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address); }},
      {"bind", [=, fd = before.socket_fd] { return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address); }},
      {"listen", [=, fd = before.socket_fd] { return listen(fd, 1); }},
      {"send that connects",
       [=, fd = before.socket_fd] {
         const auto* const to = reinterpret_cast<const sockaddr*>(&address);
         return static_cast<int>(sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, to, sizeof address));
       }},
      {"signal to others", [=, fd = before.socket_fd] { return fcntl(fd, F_SETOWN, getppid()); }},
      {"choice of a signal", [=, fd = before.socket_fd] { return fcntl(fd, F_SETSIG, SIGKILL); }},
      {"open to write", [=] { return open(path, O_WRONLY | O_CLOEXEC); }},
      {"open to read and write", [=] { return open(path, O_RDWR | O_CLOEXEC); }},
      {"open to create", [=] { return open(other, create, 0600); }},
      {"open to create and read", [=] { return open(other, O_RDONLY | O_CREAT | O_CLOEXEC, 0600); }},
      {"open to truncate", [=] { return open(path, O_RDONLY | O_TRUNC | O_CLOEXEC); }},
      raw("openat2", SYS_openat2, AT_FDCWD, path, nullptr, 0),
      {"truncate", [=] { return truncate(path, 1); }},
      {"ftruncate", [=, fd = before.file] { return ftruncate(fd, 1); }},
      {"msync", [=, at = before.memory] { return msync(at, 4096, MS_SYNC); }},
      {"unlink", [=] { return unlink(path); }},
      {"rename", [=] { return rename(path, other); }},
      {"chmod", [=] { return chmod(path, 0644); }},
      {"mkdir", [=] { return mkdir(other, 0755); }},
      {"map code", [=] { return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, anonymous, -1, 0) == MAP_FAILED ? -1 : 0; }},
      {"make memory code", [=, at = before.memory] { return mprotect(at, 4096, PROT_READ | PROT_EXEC); }},
      raw("memfd_create", SYS_memfd_create, "x", 0u),
      // The call that fork() makes; in a child the C library would run handlers.
      raw("clone of a process", SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0),
      raw("clone of memory that is shared", SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr, nullptr, nullptr, 0),
      {"unshare", [] { return unshare(CLONE_NEWUSER); }},
      raw("setns", SYS_setns, before.file, 0),
      {"kill", [] { return kill(getpid(), 0); }},
      raw("tgkill of another process", SYS_tgkill, getppid(), getppid(), 0),
      {"chdir", [] { return chdir("/"); }},
      {"chroot", [] { return chroot("/"); }},
      {"setgid", [] { return setgid(getgid()); }},
      {"setrlimit", [] { return setrlimit(RLIMIT_NOFILE, &limit); }},
      raw("prctl", SYS_prctl, 4 /* PR_SET_DUMPABLE */, 1, 0, 0, 0),
      raw("ioctl", SYS_ioctl, before.file, 0x5401 /* TCGETS */, nullptr),
      raw("io_uring_setup", SYS_io_uring_setup, 1u, nullptr),
      raw("userfaultfd", SYS_userfaultfd, 0),
      raw("perf_event_open", SYS_perf_event_open, nullptr, 0, -1, -1, 0UL),
      raw("keyctl", SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0),
      raw("personality", SYS_personality, 0xffffffffUL),
      raw("reboot", SYS_reboot, 0, 0, 0, nullptr),
      raw("swapon", SYS_swapon, path, 0),
      raw("umount2", SYS_umount2, other, 0),
      raw("open_by_handle_at", SYS_open_by_handle_at, AT_FDCWD, nullptr, O_RDONLY),
      raw("process_madvise", SYS_process_madvise, -1, nullptr, 0UL, 0, 0u),
      raw("pidfd_open", SYS_pidfd_open, getpid(), 0u),
  };
}

// 0 when each fails with EPERM; otherwise identifies one that does not.
int count_not_refused(const std::vector<Call>& calls, const char* where) {
  int wrong = 0;
  for (const Call& call : calls) {
    errno = 0;
    const long result = call.make();
    if (result == -1 && errno == EPERM) continue;
    ++wrong;
    std::fprintf(stderr, "%s: %s is not refused: %ld, error %d\n", where, call.name.c_str(), result, errno);
  }
  return wrong;
}

// All but users' calls are refused to root like to any user; without the filter few are.
TEST(SystemCallFilterDeathTest, RefusesWhatServingDoesNotNeedInEachThread) {
  EXPECT_EXIT(
      {
        const Before before;
        const std::vector<Call> calls = refused_calls(before);
        std::promise<void> filtered;
        int wrong = 0;
        std::thread early([&] {
          filtered.get_future().wait();
          wrong += count_not_refused(calls, "a thread from before");
        });
        filter_system_calls({});
        wrong += count_not_refused(calls, "the thread that filters");
        filtered.set_value();
        early.join();
        std::thread([&] { wrong += count_not_refused(calls, "a thread from after"); }).join();
        std::quick_exit(wrong == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SystemCallFilterDeathTest, EndsTheProcessOfAnIntruder) {
  static char word[] = "x";
  static char* const words[] = {word, nullptr};
  static iovec part{word, 1};
  const std::vector<Call> calls = {
      {"execve", [] { return execve("/bin/true", words, nullptr); }},
      raw("execveat", SYS_execveat, AT_FDCWD, "/bin/true", words, nullptr, 0),
      {"ptrace", [] { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
      {"process_vm_readv", [] { return process_vm_readv(getpid(), &part, 1, &part, 1, 0); }},
      {"process_vm_writev", [] { return process_vm_writev(getpid(), &part, 1, &part, 1, 0); }},
      {"setuid", [] { return setuid(getuid()); }},
      raw("setresuid", SYS_setresuid, -1, -1, -1),
      raw("setreuid", SYS_setreuid, -1, -1),
      raw("bpf", SYS_bpf, 0, nullptr, 0u),
      raw("mount", SYS_mount, nullptr, "/nowhere", nullptr, 0UL, nullptr),
      raw("pivot_root", SYS_pivot_root, "/nowhere", "/nowhere"),
      raw("init_module", SYS_init_module, nullptr, 0UL, ""),
      raw("finit_module", SYS_finit_module, -1, "", 0),
      raw("kexec_load", SYS_kexec_load, 0UL, 0UL, nullptr, 0UL),
  };
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    EXPECT_EXIT(
        {
          filter_system_calls({});
          call.make();
          std::_Exit(0);
        },
        testing::KilledBySignal(SIGSYS), "");
  }
}

std::string status_of(const std::filesystem::path& folder, const std::string& name) {
  std::ifstream file(folder / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return line.substr(line.find_last_of('\t') + 1);
  }
  return {};
}

TEST(SystemCallFilterDeathTest, LetsThreadsAndMemoryBe) {
  EXPECT_EXIT(
      {
        const Before before;
        std::promise<void> over;
        std::thread early([&] { over.get_future().wait(); });
        filter_system_calls({});
        bool well = true;
        int threads = 0;
        std::thread late([&] {
          well = well && pthread_setname_np(pthread_self(), "late") == 0;
          for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            well = well && status_of(task, "Seccomp") == "2" && status_of(task, "NoNewPrivs") == "1";
            ++threads;
          }
        });
        late.join();
        over.set_value();
        early.join();
        void* const memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        well = well && memory != MAP_FAILED && mprotect(memory, 4096, PROT_READ) == 0 &&
               madvise(memory, 1 << 20, MADV_DONTNEED) == 0 && munmap(memory, 1 << 20) == 0;
        const int epoll = epoll_create1(EPOLL_CLOEXEC);
        const int event = eventfd(1, EFD_CLOEXEC);
        epoll_event ready{};
        ready.events = EPOLLIN;
        well = well && epoll_ctl(epoll, EPOLL_CTL_ADD, event, &ready) == 0 && epoll_wait(epoll, &ready, 1, 1000) == 1;
        well = well && open(before.path.c_str(), O_RDONLY | O_CLOEXEC) >= 0;
        std::quick_exit(well && threads >= 3 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SystemCallFilterDeathTest, AllowsWhatTheSettingsNeed) {
  EXPECT_EXIT(
      {
        const Before before;
        filter_system_calls({.removes_files = true, .memory_file = true});
        const bool well = ftruncate(before.file, 8192) == 0 && fallocate(before.file, 0, 0, 8192) == 0 &&
                          msync(before.memory, 4096, MS_SYNC) == 0 && fsync(before.file) == 0 &&
                          sync_file_range(before.file, 0, 4096, SYNC_FILE_RANGE_WAIT_BEFORE) == 0 &&
                          unlink(before.path.c_str()) == 0;
        // And no more than that is refused.
        const bool still = open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 && errno == EPERM;
        std::quick_exit(well && still ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SystemCallFilterDeathTest, AnAbortIsStillOne) {
  EXPECT_EXIT(
      {
        filter_system_calls({});
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "");
}

// As in a container without filters: an error, before clients are accepted.
TEST(SystemCallFilterDeathTest, SaysWhenThereIsNone) {
  EXPECT_EXIT(
      {
        filter_system_calls({});  // it refuses the next one
        try {
          filter_system_calls({});
        } catch (const CommandError& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::quick_exit(error.exit_code() == EX_OSERR ? 0 : 1);
        }
        std::quick_exit(2);
      },
      testing::ExitedWithCode(0), "cannot filter system calls");
}

}  // namespace
}  // namespace tandem::cli
