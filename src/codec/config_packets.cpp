#include "codec/config_packets.hpp"

#include <string>

#include "codec/binary.hpp"
#include "codec/packet_writer.hpp"

namespace tandem::codec {
namespace {

void write_value(const Query& q, std::string_view key, const ConfigStore::Value& value, Output& out) {
  char* const begin = out.reserve(binary::header_bytes + binary::flags_bytes);
  char* const extras =
      write_header(begin, q, binary::Status::ok, binary::flags_bytes, static_cast<std::uint32_t>(key.size()),
                   static_cast<std::uint32_t>(value.bytes.size()), 0);
  binary::write(extras, value.flags);
  out.commit(binary::header_bytes + binary::flags_bytes);
  out.append(key);
  out.append(value.bytes);
}

}  // namespace

void execute_config_packet(const Query& q, ConfigStore& store, Output& out) {
  using binary::Status;
  const bool quiet = q.has(option::no_reply);
  switch (static_cast<ConfigAction>(q.delta)) {
    case ConfigAction::get: {
      const bool with_key = binary::rule_of(binary::read<std::uint8_t>(q.wire + binary::at::opcode)).with_key;
      const std::string_view key = with_key ? q.key_view() : std::string_view();
      const bool found =
          store.get(q.key_view(), [&](const ConfigStore::Value& value) { write_value(q, key, value, out); });
      if (found || quiet) return;
      return write_packet(q, Status::not_found, key, with_key ? std::string_view() : binary::text::not_found, 0, out);
    }
    case ConfigAction::set: {
      const std::string error = store.set(q.key_view(), q.client_flags, {q.value, q.value_bytes});
      if (!error.empty()) return write_status(q, Status::invalid, error, out);
      break;
    }
    case ConfigAction::remove:
      if (!store.remove(q.key_view())) return write_status(q, Status::not_found, binary::text::not_found, out);
      break;
    case ConfigAction::list:  // a packet for each key, then one without, as stat
      for (const std::string& key : store.keys()) write_packet(q, Status::ok, key, {}, 0, out);
      return write_status(q, Status::ok, {}, out);
  }
  if (!quiet) write_status(q, Status::ok, {}, out);
}

}  // namespace tandem::codec
