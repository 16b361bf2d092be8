#include "worker/state.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "net/tls_context.hpp"

namespace tandem::net {
namespace {

ProtocolOptions protocol_options(const ServerOptions& server, Engine& engine, Credentials* sasl,
                                 Credentials* auth_file) {
  ProtocolOptions options;
  options.item_bytes_max = engine.options().item_bytes_max;
  options.cas = engine.options().cas;
  options.ordered = engine.shared().index.is_ordered();
  options.flush_enabled = server.flush_enabled;
  options.dump_enabled = server.dump_enabled;
  options.watch_enabled = server.watch_enabled;
  options.shutdown_enabled = server.shutdown_enabled;
  options.lru_maintainer = server.lru_maintainer;
  const std::optional<Dialect> dialect = dialect_of(server.protocol);
  if (!dialect) throw std::invalid_argument("no such protocol: " + server.protocol);
  options.dialect = *dialect;
  if (!server.control_path.empty()) options.config = server.control_tcp ? ConfigAccess::write : ConfigAccess::read;
  options.sasl = sasl;
  options.auth_file = auth_file;
  return options;
}

// A client that may open the socket needs no password.
ProtocolOptions control_options(ProtocolOptions options) {
  options.config = ConfigAccess::write;
  options.dialect = Dialect::automatic;
  options.sasl = options.auth_file = nullptr;
  return options;
}

std::unique_ptr<Credentials> credentials(bool wanted, const std::string& path, Credentials::Format format) {
  return wanted ? std::make_unique<Credentials>(path, format) : nullptr;
}

}  // namespace

State::State(const ServerOptions& o, Engine& e)
    : options(o),
      engine(e),
      sasl(credentials(o.sasl, o.sasl_file, Credentials::Format::sasl_file)),
      auth_file(credentials(!o.auth_file.empty(), o.auth_file, Credentials::Format::auth_file)),
      protocol(protocol_options(o, e, sasl.get(), auth_file.get())),
      control_protocol(control_options(protocol)),
      tls(o.tls.enabled ? std::make_unique<TlsContext>(o.tls) : nullptr),
      verbosity(o.verbosity),
      track_sizes(o.track_sizes),
      kept(o.input_limit_mib != 0 ? std::uint64_t{o.input_limit_mib} << 20 : kept_bytes_total),
      pinned(std::max(e.options().memory_bytes / pinned_share, e.options().item_bytes_max)),
      filling(std::max(e.options().memory_bytes / filling_share, e.options().item_bytes_max)),
      events(std::bit_ceil(std::size_t{o.worker_log_kib} * 1024), std::size_t{o.watcher_log_kib} * 1024),
      prefixes(o.prefix_delimiter.empty() ? ':' : o.prefix_delimiter.front()),
      maintenance_recorder(events, e.shared()) {
  events.set_detail(o.detail_enabled);
  engine.set_observer(&maintenance_recorder);
}

State::~State() { engine.set_observer(nullptr); }

void State::set_memory_limit(std::uint64_t bytes) noexcept {
  pinned.set_limit(std::max(bytes / pinned_share, engine.options().item_bytes_max));
  filling.set_limit(std::max(bytes / filling_share, engine.options().item_bytes_max));
}

}  // namespace tandem::net
