// For tests that examine a store's file after each machine instruction of another process.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/platform.hpp"
#include "embedded/restart_fixture.hpp"
#include "heap/memory_file.hpp"

namespace tandem {

// Reads the live items of a file in its present state.
class FileObserver {
 public:
  static constexpr std::uint64_t memory_bytes = 8 << 20;  // of the store

  explicit FileObserver(const std::string& path) : classes_(1.25, granule_bytes, std::uint64_t{1} << 20) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info{};
    EXPECT_EQ(fstat(fd, &info), 0);
    bytes_ = static_cast<std::uint64_t>(info.st_size);
    void* const at = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(at, MAP_FAILED);
    at_ = static_cast<const char*>(at);
    close(fd);
  }
  ~FileObserver() { munmap(const_cast<char*>(at_), bytes_); }
  FileObserver(const FileObserver&) = delete;
  FileObserver& operator=(const FileObserver&) = delete;

  PageId page_end() const {
    PageId end = 1;
    for (PageId p = 1; p <= memory_bytes / page_bytes; ++p) {
      if (tag_of(p) != 0) end = p + 1;
    }
    return end;
  }

  // Hash of every word that recovery reads: if it is equal at two moments, so are their recoveries.
  std::uint64_t print() const {
    std::uint64_t hash = 0;
    const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29); };
    const auto& saved = reinterpret_cast<const FileHeader*>(at_)->saved;
    for (const auto* word : {&saved.flush, &saved.flush_due}) add(word->load());
    add(saved.cas_reserved.load());
    const auto* const redo = reinterpret_cast<const RedoRecord*>(at_ + MemoryFile::redo_at);
    for (std::uint32_t r = 0; r < MemoryFile::redo_records; ++r) {
      if (redo[r].location.load() == 0) continue;
      for (const std::uint64_t word : {redo[r].location.load(), redo[r].state, redo[r].fixed}) add(word);
      for (std::uint32_t i = 0; i < sizeof redo[r].value; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, redo[r].value + i, 8);
        add(word);
      }
    }
    for (PageId p = 1; p < page_end(); ++p) {
      add(tag_of(p));
      if (tag::state_of(tag_of(p)) != PageState::open) continue;
      const SlotShape& shape = classes_[tag::class_of(tag_of(p))];
      for (std::uint32_t slot = 0; slot < shape.slots_per_page; ++slot) {
        const std::uint64_t at = std::uint64_t{shape.location(0, slot)} * granule_bytes;
        const auto* const item = reinterpret_cast<const Item*>(page(p) + at);
        const std::uint64_t state = item->state_acquire();
        if (Item::state_of(state) != ItemState::live && !is_rewriting(state)) continue;
        add(state & ~(word::AccessS::mask | word::Accessed::mask | word::Fetched::mask));
        add(item->fixed());
        for (std::uint32_t i = 16; i + 8 <= item->value_offset() + item->small_value_bytes(); i += 8) {
          std::uint64_t word = 0;
          std::memcpy(&word, item->bytes() + i, 8);
          add(word);
        }
      }
    }
    return hash;
  }

  void copy_to(const std::string& path) const {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const std::uint64_t bytes = MemoryFile::pages_at + (page_end() - 1) * page_bytes;
    EXPECT_EQ(write(fd, at_, bytes), static_cast<ssize_t>(bytes));
    close(fd);
  }

 private:
  std::uint16_t tag_of(PageId p) const {
    return reinterpret_cast<const std::atomic<std::uint16_t>*>(at_ + MemoryFile::tags_at)[p].load();
  }
  const char* page(PageId p) const { return at_ + MemoryFile::pages_at + (p - 1) * page_bytes; }

  const SizeClasses classes_;
  const char* at_ = nullptr;
  std::uint64_t bytes_ = 0;
};

#if defined(__x86_64__)
// Calls look(instructions so far) after each instruction of a stopped child (with a sanitizer after some), until the
// child ends or stops by itself. Returns the number of instructions.
template <class Look>
std::uint64_t step_through(pid_t pid, int& status, Look look) {
  constexpr std::uint64_t look_every = is_sanitized ? 128 : 1;  // most instructions are the sanitizer's
  for (std::uint64_t steps = 1;; ++steps) {
    const bool stepped = ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) == 0 && waitpid(pid, &status, 0) == pid;
    EXPECT_TRUE(stepped) << "at instruction " << steps;
    if (!stepped || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) return steps - 1;
    if (steps % look_every == 0) look(steps);
  }
}

// Runs child(trace) in a separate process, which calls trace() at the beginning of the examined part. After each of its
// instructions recovered(observer) must be one of `allowed`, and `after` at the end. Skips the test if a process may
// not be traced. `steps` receives the number of instructions.
template <class Child, class Recovered, class Allowed>
void step_by_step(const std::string& path, Child child, Recovered recovered, Allowed allowed,
                  const std::optional<std::string>& after, std::uint64_t& steps) {
  const pid_t pid = fork();
  if (pid == 0) {
    child([] {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
      raise(SIGSTOP);
    });
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "ptrace is not allowed here";
  ASSERT_TRUE(WIFSTOPPED(status));
  {
    const FileObserver observer(path);
    std::map<std::uint64_t, std::optional<std::string>> seen;  // by print
    std::uint64_t last = 0;
    const auto look = [&](std::uint64_t at) {
      last = observer.print();
      if (seen.contains(last)) return;
      const std::optional<std::string> value = recovered(observer);
      EXPECT_TRUE(allowed(value)) << value.value_or("(nothing)") << " after " << at << " instructions";
      seen.emplace(last, value);
    };
    look(0);
    steps = step_through(pid, status, look);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
    look(steps);
    EXPECT_EQ(seen[last], after);
    EXPECT_GE(seen.size(), 2u);
  }
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
}
#endif

}  // namespace tandem
