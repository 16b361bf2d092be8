#include "net/log.hpp"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace tandem::net {
namespace {

std::mutex stderr_mutex;  // from checking its room to the write

bool write_now(std::string_view text) noexcept {
  const std::lock_guard lock(stderr_mutex);
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return false;
  return write(STDERR_FILENO, text.data(), text.size()) >= 0;
}

// stderr may be a pipe that is not read, and any client can have each request logged (`verbosity`). A line that does
// not fit at once is dropped, so that no worker blocks. (A stopped terminal still blocks: poll() reports it ready.)
class Stderr final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (line.size() > PIPE_BUF) {  // a ready pipe takes PIPE_BUF bytes in one write
      line.resize(PIPE_BUF);
      line.data()[PIPE_BUF - 1] = '\n';
    }
    if (left_out_ != 0 && write_now(std::to_string(left_out_) + " lines were left out: stderr was full\n"))
      left_out_ = 0;
    if (!write_now({line.data(), line.size()})) ++left_out_;
  }
  void flush_() override {}

  std::uint64_t left_out_ = 0;
};

}  // namespace

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    if (auto registered = spdlog::get("tandem")) return registered;
    auto fresh = std::make_shared<spdlog::logger>("tandem", std::make_shared<Stderr>());
    spdlog::initialize_logger(fresh);
    return fresh;
  }();
  return *logger;
}

bool say(std::string_view line) noexcept {
  char text[PIPE_BUF];  // a ready pipe takes them in one write
  const std::size_t bytes = std::min(line.size(), sizeof text - 1);
  line.copy(text, bytes);
  text[bytes] = '\n';
  return write_now({text, bytes + 1});
}

void set_log_verbosity(int verbosity) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::warn, spdlog::level::info, spdlog::level::debug,
                                                  spdlog::level::trace};
  log().set_level(levels[std::clamp(verbosity, 0, 3)]);
}

}  // namespace tandem::net
