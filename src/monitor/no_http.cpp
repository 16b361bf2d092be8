// Replaces the monitoring endpoint in a program built without it (TANDEM_STATIC).
#include <fmt/format.h>

#include <stdexcept>

#include "monitor/http_server.hpp"
#include "monitor/metrics.hpp"
#include "monitor/page.hpp"

namespace tandem::monitor {

struct HttpServer::Impl {};

HttpServer::HttpServer(const std::string& address, Handler, Permission) {
  throw std::runtime_error(
      fmt::format("metrics on {}: this program is linked statically, without the monitoring endpoint", address));
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const noexcept { return 0; }

bool is_host_of_loopback(std::string_view) noexcept { return false; }
std::string metrics_text(const net::ServerSnapshot&, const HotKeys&, std::string_view, std::string_view) { return {}; }
std::string exporter_metrics_text(const net::ServerSnapshot&, std::string_view) { return {}; }
std::optional<PageFile> page_file(std::string_view) noexcept { return std::nullopt; }

}  // namespace tandem::monitor
