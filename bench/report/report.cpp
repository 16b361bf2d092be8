#include "bench/report/report.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include <report_texts.hpp>  // the build makes it

namespace tandem::bench {
namespace fs = std::filesystem;
namespace {

// INT and QUIT are ignored while one lives, as system(3) has it.
class IgnoredSignals {
 public:
  IgnoredSignals() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &int_);
    sigaction(SIGQUIT, &ignore, &quit_);
  }
  ~IgnoredSignals() {
    sigaction(SIGINT, &int_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }
  IgnoredSignals(const IgnoredSignals&) = delete;
  IgnoredSignals& operator=(const IgnoredSignals&) = delete;

 private:
  struct sigaction int_{}, quit_{};
};

}  // namespace

std::string report_python(const char* from_environment, const fs::path& program) {
  if (from_environment != nullptr && *from_environment != '\0') return from_environment;
  const fs::path beside = program.parent_path().parent_path() / "venv/bin/python";
  std::error_code error;
  return fs::exists(beside, error) ? beside.string() : "python3";
}

PrivateFolder::PrivateFolder() {
  std::string name = (fs::temp_directory_path() / "tandem-report-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
  path_ = name;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_report_program(const fs::path& folder) {
  for (const report_text::File& file : report_text::files) {
    const fs::path path = folder / file.path;
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out.write(file.text.data(), static_cast<std::streamsize>(file.text.size()));
    out.close();
    if (!out) throw std::system_error(errno, std::generic_category(), path.string());
  }
}

int run_and_wait(std::span<const std::string> command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGQUIT);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const IgnoredSignals ignored;
  pid_t child = -1;
  const int error = posix_spawnp(&child, words.front(), nullptr, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), command.front());
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), command.front());
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tandem::bench
