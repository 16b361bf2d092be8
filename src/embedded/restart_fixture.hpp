// Shared by the tests of warm restart: a name for a memory file on tmpfs, if available, and access to its words.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/clock.hpp"
#include "engine/engine.hpp"
#include "heap/heap_fixture.hpp"
#include "heap/memory_file.hpp"
#include "tandem/store.hpp"

namespace tandem {

// An unused name; a file of that name is removed at the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    static int count = 0;
    const std::filesystem::path shm = "/dev/shm";
    const auto folder = std::filesystem::is_directory(shm) ? shm : std::filesystem::temp_directory_path();
    path_ = folder / ("tandem-test-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// A file that is used by one store after the other. Where it matters that a process was killed, the file is copied
// while the store is open: that is what the next process would find.
struct RestartTest : testing::Test {
  Options options(std::uint64_t memory_bytes = 64 * mib) const {
    Options o;
    o.memory_bytes = memory_bytes;
    o.memory_file = file.path();
    return o;
  }
  EngineOptions engine_options(std::uint64_t memory_bytes = 64 * mib) {
    EngineOptions o;
    o.memory_bytes = memory_bytes;
    o.memory_file = file.path();
    o.log = o.warn = [this](std::string_view line) { said += std::string(line) + "\n"; };
    return o;
  }
  void put(std::uint64_t at, const void* bytes, std::size_t size) const {
    const int fd = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(pwrite(fd, bytes, size, static_cast<off_t>(at)), static_cast<ssize_t>(size));
    close(fd);
  }
  template <class T>
  void put(std::uint64_t at, T value) const {
    put(at, &value, sizeof value);
  }
  template <class T>
  T get(std::uint64_t at) const {
    T value{};
    const int fd = open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(pread(fd, &value, sizeof value, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof value));
    close(fd);
    return value;
  }
  static std::uint64_t tag_at(PageId p) { return MemoryFile::tags_at + 2 * std::uint64_t{p}; }
  static std::uint64_t page_at(PageId p) { return MemoryFile::pages_at + std::uint64_t{p - 1} * page_bytes; }
  // The first page with this state in its tag.
  PageId page_of_state(PageState state) const {
    for (PageId p = 1; p < 20'000; ++p) {
      if (tag::state_of(get<std::uint16_t>(tag_at(p))) == state) return p;
    }
    ADD_FAILURE() << "no such page";
    return 0;
  }
  // Offset of the saved time in the file, and its value.
  std::uint64_t saved_time_at() const {
    constexpr std::uint64_t at = offsetof(FileHeader, saved) + offsetof(SavedState, clock);
    return at + (get<std::uint64_t>(at + offsetof(SavedTime, current)) & 1) * sizeof(SavedTime::Moment);
  }
  StoreTime saved_time() const { return get<StoreTime>(saved_time_at()); }
  // As if the previous process had ended this much earlier (negative: later) by the wall clock.
  void age(std::int64_t seconds) const {
    StoreTime time = saved_time();
    time.unix_ns -= seconds * 1'000'000'000;
    put(saved_time_at(), time);
  }
  // What a kill would leave: the state word of an open store's file.
  void pretend_killed() const { put(offsetof(FileHeader, state), std::uint64_t{FileHeader::in_use}); }
  RestartReport reopened(std::uint64_t memory_bytes = 64 * mib) {
    Engine engine(engine_options(memory_bytes));
    return engine.restart().value_or(RestartReport{});
  }

  TemporaryFile file;
  std::string said;
};

}  // namespace tandem
