// What the tests of warm restart share: a name for a memory file on tmpfs, where there is one.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "heap/heap_fixture.hpp"

namespace tandem {

// A name that no file has; what comes to stand there is removed at the end.
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

}  // namespace tandem
