#include "monitor/monitor.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "codec/credentials.hpp"
#include "codec/protocol.hpp"
#include "monitor/metrics.hpp"
#include "monitor/page.hpp"
#include "monitor/status_json.hpp"

namespace tandem::monitor {

namespace {
// Probes get it without a token: it says no more than that the port does.
constexpr std::string_view open_path = "/healthz";

std::optional<Token> token_of(const std::string& file) {
  if (file.empty()) return std::nullopt;
  return std::optional<Token>(std::in_place, file);
}
}  // namespace

Monitor::Monitor(const std::string& address, const std::string& token_file, std::string version, std::string commit)
    : version_(std::move(version)),
      commit_(std::move(commit)),
      token_(token_of(token_file)),
      http_(
          address, [this](std::string_view path, std::string_view query_string) { return answer(path, query_string); },
          [this](std::string_view path, std::string_view authorization) {
            return !token_ || path == open_path || token_->passes(authorization);
          }) {}

std::optional<net::LogLine> Monitor::reload() {
  if (!token_) return std::nullopt;
  try {
    token_->reload();
    return net::LogLine{"reloaded the metrics token from " + token_->path()};
  } catch (const CredentialsError& error) {
    return net::LogLine{fmt::format("{}; the token stays as it was", error.what()), spdlog::level::warn};
  }
}

void Monitor::watch(net::Telemetry& server) {
  note(server);
  server_.store(&server, std::memory_order_release);
  thread_ = std::thread([this, &server] { run(server); });
  pthread_setname_np(thread_.native_handle(), "tandem-monitor");
}

Monitor::~Monitor() {
  server_.store(nullptr, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakeup_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Monitor::run(net::Telemetry& server) {
  const auto try_note = [&] {
    try {
      note(server);
      return true;
    } catch (const std::bad_alloc&) {
      return false;  // a second without a point
    }
  };
  auto due = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    due += std::chrono::seconds(1);
    // After the process was stopped, the missed seconds get no points.
    const auto now = std::chrono::steady_clock::now();
    if (due <= now) due = now + std::chrono::seconds(1);
    if (wakeup_.wait_until(lock, due, [this] { return stopping_; })) return;
    lock.unlock();
    static_cast<void>(try_note());
    lock.lock();
  }
}

void Monitor::note(const net::Telemetry& server) {
  net::ServerSnapshot snapshot = server.snapshot();
  const std::chrono::duration<double> unix_time = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  history_.add(std::move(snapshot), std::chrono::steady_clock::now(), unix_time.count());
}

HttpReply Monitor::answer(std::string_view path, std::string_view query_string) {
  if (const auto file = page_file(path))
    return {.content_type = std::string(file->type), .body = std::string(file->text)};
  const bool is_known =
      path == "/metrics" || path == "/metrics/memcached" || path == "/api/status" || path == open_path;
  if (!is_known)
    return {.status = 404, .body = "there are /, /metrics, /metrics/memcached, /api/status and /healthz\n"};
  net::Telemetry* const server = server_.load(std::memory_order_acquire);
  if (server == nullptr) return {.status = 503, .body = "starting\n"};
  if (path == open_path) return {.body = "ok\n"};
  const std::string prometheus_text = "text/plain; version=0.0.4; charset=utf-8";
  if (path == "/metrics") {
    return {.content_type = prometheus_text,
            .body = metrics_text(server->snapshot(), server->hot_keys(hot_key_ranks), version_, commit_)};
  }
  if (path == "/metrics/memcached") {
    return {.content_type = prometheus_text,
            .body = exporter_metrics_text(server->snapshot(), ProtocolOptions{}.version)};
  }
  const std::optional<std::uint64_t> since = since_of(query_string);
  if (!since) return {.status = 400, .body = "since must be a number\n"};
  const HotKeys hot = server->hot_keys(page_keys);
  const net::BigKeys big = server->big_keys(page_keys);
  const std::lock_guard lock(mutex_);
  return {.content_type = "application/json", .body = status_json(history_, hot, big, *since, version_)};
}

}  // namespace tandem::monitor
