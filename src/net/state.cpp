#include "net/state.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "net/tls_context.hpp"

namespace tandem::net {
namespace {

ProtocolOptions protocol_options(const ServerOptions& server, const EngineOptions& engine) {
  ProtocolOptions options;
  options.item_bytes_max = engine.item_bytes_max;
  options.cas = engine.cas;
  options.flush_enabled = server.flush_enabled;
  return options;
}

}  // namespace

EventFd::EventFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

State::State(const ServerOptions& o, Engine& e)
    : options(o),
      engine(e),
      protocol(protocol_options(o, e.options())),
      tls(o.tls.enabled ? std::make_unique<TlsContext>(o.tls) : nullptr),
      verbosity(o.verbosity),
      pinned(std::max(e.options().memory_bytes / pinned_share, e.options().item_bytes_max)),
      filling(std::max(e.options().memory_bytes / filling_share, e.options().item_bytes_max)) {}

State::~State() = default;

}  // namespace tandem::net
