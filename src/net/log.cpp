#include "net/log.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tandem::net {
namespace {

std::atomic<LogFormat> chosen_format{LogFormat::text};

std::string time_text(spdlog::log_clock::time_point time) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const std::time_t seconds = since.count() / 1000;
  std::tm date{};
  gmtime_r(&seconds, &date);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday,
                     date.tm_hour, date.tm_min, date.tm_sec, since.count() % 1000);
}

std::string json_line(std::string_view time, std::string_view level, std::string_view message) {
  // Bytes that are not UTF-8 are replaced.
  const std::string text =
      nlohmann::json(std::string(message)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"message\":{}}}\n", time, level, text);
}

// At most PIPE_BUF bytes, which a ready pipe takes in one write; of a longer message the end is left out.
class LineFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string time = time_text(message.time);
    const auto name = spdlog::level::to_string_view(message.level);
    const std::string_view level(name.data(), name.size());
    std::string_view text = std::string_view(message.payload.data(), message.payload.size()).substr(0, PIPE_BUF);
    for (;;) {
      const std::string line = chosen_format.load(std::memory_order_relaxed) == LogFormat::json
                                   ? json_line(time, level, text)
                                   : fmt::format("{} {}: {}\n", time, level, text);
      if (line.size() <= PIPE_BUF) return out.append(line.data(), line.data() + line.size());
      text.remove_suffix(std::min(text.size(), std::max<std::size_t>(line.size() - PIPE_BUF, 16) / 6 + 1));
    }
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(); }
};

bool write_now(std::string_view text) noexcept {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return false;
  return write(STDERR_FILENO, text.data(), text.size()) >= 0;
}

// stderr may be a pipe that is not read, and any client can have each request logged (`verbosity`). A line that does
// not fit at once is dropped, so that no worker blocks. (A stopped terminal still blocks: poll() reports it ready.)
class Stderr final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  Stderr() : base_sink(std::make_unique<LineFormatter>()) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (left_out_ != 0) {
      const std::string said = std::to_string(left_out_) + " lines were left out: stderr was full";
      if (put({message.time, {}, "tandem", spdlog::level::warn, said})) left_out_ = 0;
    }
    if (!put(message)) ++left_out_;
  }
  void flush_() override {}

  bool put(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    return write_now({line.data(), line.size()});
  }

  std::uint64_t left_out_ = 0;
};

}  // namespace

void set_log_format(LogFormat format) { chosen_format.store(format, std::memory_order_relaxed); }

LogFormat log_format() noexcept { return chosen_format.load(std::memory_order_relaxed); }

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    if (auto registered = spdlog::get("tandem")) return registered;
    auto fresh = std::make_shared<spdlog::logger>("tandem", std::make_shared<Stderr>());
    spdlog::register_logger(fresh);
    return fresh;
  }();
  return *logger;
}

void say(std::string_view line, spdlog::level::level_enum level) noexcept {
  try {
    const spdlog::details::log_msg message("tandem", level, {line.data(), line.size()});
    for (const auto& sink : log().sinks()) sink->log(message);
  } catch (const std::exception&) {  // no memory
    write_now(line.substr(0, PIPE_BUF - 1));
    write_now("\n");
  }
}

void set_log_verbosity(int verbosity) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::warn, spdlog::level::info, spdlog::level::debug,
                                                  spdlog::level::trace};
  log().set_level(levels[std::clamp(verbosity, 0, 3)]);
}

}  // namespace tandem::net
