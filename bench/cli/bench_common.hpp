// Shared by the commands of `tandem bench`.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/options.hpp"
#include "bench/load/run.hpp"
#include "options/arguments.hpp"

namespace tandem::cli {

// Runs `body`; std::invalid_argument becomes bad usage, std::system_error "cannot run", both with `name` in front.
int run_bench_guarded(std::string_view name, const std::function<int()>& body);

// The command line as typed into a shell.
std::string command_line(std::string_view name, std::span<const std::string> arguments);

// "a,b" to {"a", "b"}.
std::vector<std::string> split(std::string_view text, char separator);
// "1,2" and "2-5" to numbers. Throws std::invalid_argument.
std::vector<int> parse_processors(std::string_view text);
// "500us", "2ms", "1s" or "1000ops". Throws std::invalid_argument.
load::Alternation parse_turn(std::string_view text);

// One line on stderr, rewritten in place, if that is a terminal; otherwise no output. (No Debian release has a library
// of progress bars for C++.) Thread safety: none.
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // For one run; empty when no bar is shown. Must not outlive the bar.
  load::Progress named(std::string name);
  void clear();

 private:
  void show(std::string_view name, double share, std::uint64_t ops);

  bool shows_, is_shown_ = false;
  std::uint64_t last_ns_ = 0, last_ops_ = 0;
};

}  // namespace tandem::cli
