#include "net/state.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace tandem::net {
namespace {

ProtocolOptions protocol_options(const ServerOptions& server, const EngineOptions& engine, Credentials* sasl,
                                 Credentials* auth_file) {
  ProtocolOptions options;
  options.item_bytes_max = engine.item_bytes_max;
  options.cas = engine.cas;
  options.flush_enabled = server.flush_enabled;
  const std::optional<Dialect> dialect = dialect_of(server.protocol);
  if (!dialect) throw std::invalid_argument("no such protocol: " + server.protocol);
  options.dialect = *dialect;
  options.sasl = sasl;
  options.auth_file = auth_file;
  return options;
}

std::unique_ptr<Credentials> credentials(bool wanted, const std::string& path, Credentials::Format format) {
  return wanted ? std::make_unique<Credentials>(path, format) : nullptr;
}

}  // namespace

EventFd::EventFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

State::State(const ServerOptions& o, Engine& e)
    : options(o),
      engine(e),
      sasl(credentials(o.sasl, o.sasl_file, Credentials::Format::sasl_file)),
      auth_file(credentials(!o.auth_file.empty(), o.auth_file, Credentials::Format::auth_file)),
      protocol(protocol_options(o, e.options(), sasl.get(), auth_file.get())),
      verbosity(o.verbosity),
      pinned(std::max(e.options().memory_bytes / pinned_share, e.options().item_bytes_max)),
      filling(std::max(e.options().memory_bytes / filling_share, e.options().item_bytes_max)) {}

}  // namespace tandem::net
