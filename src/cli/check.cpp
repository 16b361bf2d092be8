#include <fmt/format.h>
#include <sys/un.h>
#include <sysexits.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <stdexcept>

#include "cli/invocation.hpp"
#include "codec/dialect.hpp"
#include "engine/index_kinds.hpp"
#include "net/endpoint.hpp"
#include "options/value.hpp"
#include "preset/preset.hpp"

namespace tandem::cli {
namespace {
void check_unix_name(const std::string& path, std::string_view where) {
  constexpr std::size_t bytes_max = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= bytes_max) return;
  throw CommandError(EX_USAGE,
                     fmt::format("{}: longer than the {} bytes that a Unix socket's name may have", where, bytes_max));
}
}  // namespace

void check_unix_path(const Settings& settings, std::string_view where) {
  check_unix_name(settings.server.unix_path, where);
}

void check_control(const Settings& settings, std::string_view where) {
  const std::string& path = settings.server.control_path;
  if (path.empty()) return;
  check_unix_name(path, where);
  // Every user of the machine may connect to such a name.
  if (path.front() == '@')
    throw CommandError(EX_USAGE,
                       fmt::format("{}: {} names no file, whose permissions would protect it", where, in_quotes(path)));
  if (path == settings.server.unix_path)
    throw CommandError(EX_USAGE, fmt::format("{}: {} is the clients' Unix socket (unix)", where, in_quotes(path)));
}

void check_eviction(const Settings& settings, std::string_view where) {
  const std::string& eviction = settings.engine.eviction;
  if (eviction == "clock" || eviction == "s3-fifo") return;
  throw CommandError(EX_USAGE, fmt::format("{}: {} is neither clock nor s3-fifo", where, in_quotes(eviction)));
}

void check_gpu(const Settings& settings, std::string_view where) {
  const std::string& gpu = settings.gpu.which;
  const bool is_number = !gpu.empty() && gpu.size() < 4 && gpu.find_first_not_of("0123456789") == std::string::npos;
  if (gpu == "auto" || gpu == "off" || gpu == "sim" || is_number) return;
  throw CommandError(EX_USAGE, fmt::format("{}: {} is neither auto, off, sim nor a number", where, in_quotes(gpu)));
}

void check_metrics(const Settings& settings, std::string_view where) {
  const std::string& address = settings.server.metrics;
  if (address.empty() || address.find_first_not_of("0123456789") != std::string::npos) return;
  throw CommandError(
      EX_USAGE, fmt::format("{}: expected ADDRESS:PORT such as 127.0.0.1:9150, got {}", where, in_quotes(address)));
}

// The program that the kernel runs is made for one port, before that is bound.
void check_xdp(const Settings& settings, std::string_view where) {
  const ServerOptions& server = settings.server;
  if (server.xdp_interface.empty()) return;
  if (!server.unix_path.empty())
    throw CommandError(EX_USAGE, fmt::format("{}: there is no UDP beside a Unix socket", where));
  if (server.udp_port <= 0)
    throw CommandError(EX_USAGE, fmt::format("{}: udp-port must be given, as a number above 0", where));
}

void check_gpus(const Settings& settings, std::string_view where) {
  const unsigned count = settings.gpu.count;
  if (count != 0 && !std::has_single_bit(count))
    throw CommandError(EX_USAGE, fmt::format("{}: {} is none of 0, 1, 2, 4, 8", where, count));
  const PresetRow& preset = presets()[settings.server.preset];
  if (const std::uint32_t most = index_kind_named(preset.index_kind).devices_max;
      count > std::max(most, 1u) && preset.offload != Offload::never && settings.gpu.which != "off")
    throw CommandError(EX_USAGE,
                       fmt::format("{}: {}, where preset {} has {} at most", where, count, preset.name, most));
}

namespace {
void check_tls(const Settings& settings, const std::function<std::string(const Option&)>& where) {
  const TlsOptions& tls = settings.server.tls;
  const auto fail = [&](std::string_view option, std::string_view why) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", where(*find_option(option)), why));
  };
  if (!tls.enabled) return;
  if (tls.certificate.empty()) fail("tls", "TLS needs a certificate (tls-cert)");
  if (tls.verify_mode != 0 && tls.ca.empty()) fail("tls-verify", "needs the CAs of clients' certificates (tls-ca)");
  if (settings.server.tcp_port == 0 && settings.server.unix_path.empty()) fail("port", "there is no TLS without TCP");
}
}  // namespace

void check_together(const Settings& settings, const std::function<std::string(const Option&)>& where) {
  const Option& listen = *find_option("listen");
  for (const std::string& entry : settings.server.listen) {
    try {
      if (net::parse_endpoint(entry).plain && !settings.server.tls.enabled)
        throw std::invalid_argument(fmt::format("{}: there is no TLS to leave out", in_quotes(entry)));
    } catch (const std::invalid_argument& error) {
      throw CommandError(EX_USAGE, fmt::format("{}: {}", where(listen), error.what()));
    }
  }
  check_tls(settings, where);
  check_unix_path(settings, where(*find_option("unix")));
  check_control(settings, where(*find_option("control")));
  check_eviction(settings, where(*find_option("eviction")));
  check_gpu(settings, where(*find_option("gpu")));
  check_gpus(settings, where(*find_option("gpus")));
  check_metrics(settings, where(*find_option("metrics")));
  check_xdp(settings, where(*find_option("xdp")));
  if (settings.server.unix_path.empty() && settings.server.tcp_port == 0 && settings.server.udp_port == 0) {
    throw CommandError(EX_USAGE, fmt::format("{}: 0, as udp-port is, and without a Unix socket (unix) there is nothing "
                                             "to listen on",
                                             where(*find_option("port"))));
  }
  if (settings.server.prefix_delimiter.size() != 1) {
    throw CommandError(EX_USAGE, fmt::format("{}: one character is wanted", where(*find_option("prefix-delimiter"))));
  }
  if (settings.engine.item_bytes_max > settings.engine.memory_bytes / 2) {
    throw CommandError(
        EX_USAGE, fmt::format("{}: {} is more than half of the memory ({})", where(*find_option("item-max")),
                              format_size(settings.engine.item_bytes_max), format_size(settings.engine.memory_bytes)));
  }
}

void take_sasl_file_from_environment(ServerOptions& server) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before any other thread
  if (const char* const path = std::getenv("MEMCACHED_SASL_PWDB"); path != nullptr) server.sasl_file = path;
}

void resolve_authentication(Settings& settings, const std::function<std::string(const Option&)>& where) {
  ServerOptions& server = settings.server;
  const auto fail = [&where](std::string_view option, std::string_view what) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", where(*find_option(option)), what));
  };
  if (!dialect_of(server.protocol)) fail("protocol", fmt::format("{}: auto, ascii or binary", server.protocol));
  const bool text = !server.auth_file.empty();
  if (server.sasl) {
    if (server.sasl_file.empty()) take_sasl_file_from_environment(server);
    if (server.sasl_file.empty()) fail("sasl", "sasl-file or MEMCACHED_SASL_PWDB must name a password file");
    if (!text && server.protocol == "ascii")
      fail("protocol", "ascii: the text protocol asks for an auth-file beside sasl");
  }
  if (text && !server.sasl && server.protocol == "binary")
    fail("protocol", "binary: the binary protocol asks for sasl beside an auth-file");
  if (!text && !server.sasl) return;
  if (server.udp_port != 0) fail("udp-port", "UDP cannot be authenticated: 0 turns it off");
}

}  // namespace tandem::cli
