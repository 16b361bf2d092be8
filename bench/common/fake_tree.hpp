// For tests: a folder with files like the kernel's.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace tandem::bench {

class FakeTree {
 public:
  explicit FakeTree(const std::string& folder) : root_(folder) { std::filesystem::remove_all(root_); }
  ~FakeTree() { std::filesystem::remove_all(root_); }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  void write(std::string_view file, std::string_view text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

}  // namespace tandem::bench
