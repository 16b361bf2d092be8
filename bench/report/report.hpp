// The report of `tandem bench report`: a Python program (bench/report/program), since matplotlib draws it, embedded in
// this one.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tandem::bench {

// $TANDEM_PYTHON, else the Python of the build that `program` belongs to (../venv beside its folder), else python3 of
// the path. `program`: this program's file.
std::string report_python(const char* from_environment, const std::filesystem::path& program);

// A folder that only this user may enter, removed at the end. Throws std::system_error.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

// Writes the Python program's files below `folder`. Throws std::system_error.
void write_report_program(const std::filesystem::path& folder);

// Runs a program without a shell, with this one's files and environment, and waits; meanwhile only the program receives
// the terminal's signals. Returns its exit code, or 128 + the signal that ended it. Throws std::system_error when it
// cannot be started. Not for processes with other threads.
int run_and_wait(std::span<const std::string> command);

}  // namespace tandem::bench
