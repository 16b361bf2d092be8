#include "bench/cli/bench_common.hpp"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "base/process_meter.hpp"
#include "bench/compare/peers.hpp"
#include "options/options.hpp"
#include "options/value.hpp"

namespace tandem::cli {

int run_bench_guarded(std::string_view name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", name, error.what()));
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    const bool is_unavailable = error.code().category() == std::generic_category() &&
                                (code == ECONNREFUSED || code == ENOENT || code == ETIMEDOUT || code == EHOSTUNREACH ||
                                 code == ENETUNREACH || code == EADDRNOTAVAIL || code == ECONNRESET);
    throw CommandError(is_unavailable ? EX_UNAVAILABLE : EX_OSERR, fmt::format("{}: {}", name, error.what()));
  }
}

std::string command_line(std::string_view name, std::span<const std::string> arguments) {
  return fmt::format("tandem {}{}{}", name, arguments.empty() ? "" : " ", bench::shell_line(arguments));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::vector<int> parse_processors(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string& part : split(text, ',')) {
    int first = 0;
    const char* const end = part.data() + part.size();
    auto [stop, error] = std::from_chars(part.data(), end, first);
    int last = first;
    if (error == std::errc{} && stop != end && *stop == '-') {
      const auto [last_stop, last_error] = std::from_chars(stop + 1, end, last);
      stop = last_stop;
      error = last_error;
    }
    if (error != std::errc{} || stop != end || first < 0 || last < first || last > 1023)
      throw std::invalid_argument(
          fmt::format("--processors: expected numbers such as 1,2 or 2-5, got {}", in_quotes(text)));
    for (int n = first; n <= last; ++n) numbers.push_back(n);
  }
  return numbers;
}

load::Alternation parse_turn(std::string_view text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(stop, static_cast<std::size_t>(text.data() + text.size() - stop));
  const double ns = unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 0;
  const bool is_ops = unit == "ops" && number == std::floor(number);
  if (error != std::errc{} || !(number > 0) || (ns == 0 && !is_ops) || number * (is_ops ? 1 : ns) > 1e15 ||
      (!is_ops && number * ns < 1e3))
    throw std::invalid_argument(
        fmt::format("--every: expected a time such as 2ms or a number such as 1000ops, got {}", in_quotes(text)));
  load::Alternation turn;
  (is_ops ? turn.every_ops : turn.every_ns) = static_cast<std::uint64_t>(number * (is_ops ? 1 : ns));
  return turn;
}

ProgressBar::ProgressBar(bool wanted) : shows_(wanted && isatty(STDERR_FILENO) == 1) {}

load::Progress ProgressBar::named(std::string name) {
  if (!shows_) return {};
  last_ns_ = last_ops_ = 0;
  return [this, name = std::move(name)](double share, std::uint64_t ops) { show(name, share, ops); };
}

void ProgressBar::show(std::string_view name, double share, std::uint64_t ops) {
  static constexpr std::size_t width = 30;
  const std::uint64_t now = monotonic_ns();
  std::string rate;
  if (last_ns_ != 0 && now > last_ns_ && ops >= last_ops_)
    rate = fmt::format("{:.0f} op/s", static_cast<double>(ops - last_ops_) * 1e9 / static_cast<double>(now - last_ns_));
  last_ns_ = now;
  last_ops_ = ops;
  const auto done = static_cast<std::size_t>(share * static_cast<double>(width));
  fmt::print(stderr, "\r\x1b[K{:<8} [{:#<{}}{:<{}}] {:3.0f} %  {}", name, "", done, "", width - done, share * 100,
             rate);
  std::fflush(stderr);
  is_shown_ = true;
}

void ProgressBar::clear() {
  if (!is_shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  is_shown_ = false;
}

}  // namespace tandem::cli
