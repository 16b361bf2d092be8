// Replies of the binary protocol, with opcode and opaque from the request's header. As in memcached, a quiet get does
// not answer a miss, and any other quiet request does not answer a success.
#include <string>

#include "codec/admin_command.hpp"
#include "codec/binary.hpp"
#include "codec/config_packets.hpp"
#include "codec/packet_writer.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/scan.hpp"

namespace tandem::codec {
namespace {

using binary::header_bytes;

// The CAS id of a hit.
std::uint64_t cas_of(const Result& r, const ReplyContext& context) noexcept {
  std::uint64_t cas = 0;
  if (context.options.cas)
    copy_validated(r.item, r.state, [&cas](const ItemVersion& seen) noexcept { cas = seen.cas(); });
  return cas;
}

TD_INLINE void write_get(const Query& q, const Result& r, bool with_key, const ReplyContext& context) {
  Output& out = context.out;
  if (TD_UNLIKELY(r.status != Status::hit)) {
    if (q.has(option::no_reply)) return;
    if (with_key) return write_packet(q, binary::Status::not_found, q.key_view(), {}, 0, out);
    return write_status(q, binary::Status::not_found, binary::text::not_found, out);
  }
  const std::uint32_t bytes = r.value_bytes, key_bytes = with_key ? q.key_bytes : 0;
  const bool copied = TD_LIKELY(bytes <= copied_value_bytes_max);
  char* const begin = out.reserve(header_bytes + binary::flags_bytes + key_bytes_max + (copied ? bytes : 0));
  char* const end = write_validated(begin, r, [&](char* p, const ItemVersion& seen) noexcept {
    const std::uint64_t cas = context.options.cas ? seen.cas() : 0;
    p = write_header(p, q, binary::Status::ok, binary::flags_bytes, key_bytes, bytes, cas);
    binary::write(p, r.item->client_flags());
    p += binary::flags_bytes;
    if (with_key) p = copy_short(p, q.key, key_bytes);
    return copied ? copy_value(p, r.item->value(), bytes) : p;
  });
  out.commit(static_cast<std::size_t>(end - begin));
  if (TD_LIKELY(copied)) return;
  append_pinned_value(context, *r.item, r.value_bytes);
}

void write_touch(const Query& q, const Result& r, const ReplyContext& context) {
  if (r.status != Status::hit) return write_status(q, binary::Status::not_found, binary::text::not_found, context.out);
  char* const begin = context.out.reserve(header_bytes + binary::flags_bytes);
  char* p = write_header(begin, q, binary::Status::ok, binary::flags_bytes, 0, 0, cas_of(r, context));
  binary::write(p, r.item->client_flags());
  context.out.commit(header_bytes + binary::flags_bytes);
}

void write_store(const Query& q, const Result& r, const ReplyContext& context) {
  using binary::Status;
  namespace text = binary::text;
  const auto say = [&](Status status, std::string_view body) { write_status(q, status, body, context.out); };
  switch (r.status) {
    case tandem::Status::stored:
      if (!q.has(option::no_reply))
        write_packet(q, Status::ok, {}, {}, context.options.cas ? r.number : 0, context.out);
      return;
    case tandem::Status::exists:
      return say(Status::exists, text::exists);
    case tandem::Status::not_found:
      return say(Status::not_found, text::not_found);
    case tandem::Status::too_large:
      return say(Status::too_large, text::too_large);
    case tandem::Status::out_of_memory:
      return say(Status::no_memory, text::no_memory_store);
    default:
      break;
  }
  if (q.mode == StoreMode::add) return say(Status::exists, text::exists);
  if (q.mode == StoreMode::replace) return say(Status::not_found, text::not_found);
  say(Status::not_stored, text::not_stored);
}

void write_remove(const Query& q, const Result& r, const ReplyContext& context) {
  if (r.status == Status::removed) {
    if (!q.has(option::no_reply)) write_status(q, binary::Status::ok, {}, context.out);
  } else if (r.status == Status::exists) {
    write_status(q, binary::Status::exists, binary::text::exists, context.out);
  } else {
    write_status(q, binary::Status::not_found, binary::text::not_found, context.out);
  }
}

// The old item's client flags and value, where there was one. A store's CAS id is the new item's, as a set's.
void write_displaced(const Query& q, const Result& r, const ReplyContext& context) {
  const bool stores = q.opcode == Opcode::store;
  if ((r.outcome & outcome::displaced) == 0) {
    // Quiet ones that hand nothing over say nothing, as a quiet get.
    if (q.has(option::no_reply) && r.status == tandem::Status::miss) return;
    return stores ? write_store(q, r, context) : write_remove(q, r, context);
  }
  std::uint64_t cas = 0;
  if (context.options.cas) cas = stores ? r.number : r.item->cas(r.state);
  const std::uint32_t bytes = r.value_bytes;
  const bool copied = bytes <= copied_value_bytes_max;
  char* p = context.out.reserve(header_bytes + binary::flags_bytes + (copied ? bytes : 0));
  p = write_header(p, q, binary::Status::ok, binary::flags_bytes, 0, bytes, cas);
  binary::write(p, r.item->client_flags());
  if (copied) std::memcpy(p + binary::flags_bytes, r.item->value(), bytes);
  context.out.commit(header_bytes + binary::flags_bytes + (copied ? bytes : 0));
  if (!copied) append_pinned_value(context, *r.item, bytes);
}

void write_arithmetic(const Query& q, const Result& r, const ReplyContext& context) {
  using binary::Status;
  namespace text = binary::text;
  const auto say = [&](Status status, std::string_view body) { write_status(q, status, body, context.out); };
  switch (r.status) {
    case tandem::Status::number: {
      if (q.has(option::no_reply)) return;
      char number[binary::number_bytes];
      binary::write(number, r.number);
      return write_packet(q, Status::ok, {}, {number, sizeof number}, context.options.cas ? r.cas : 0, context.out);
    }
    case tandem::Status::exists:
      return say(Status::exists, text::exists);
    case tandem::Status::not_a_number:
      return say(Status::not_a_number, text::not_a_number);
    case tandem::Status::out_of_memory:
    case tandem::Status::too_large:
      return say(Status::no_memory, (r.outcome & outcome::created) != 0 ? text::no_memory_new : text::no_memory_number);
    default:
      return say(Status::not_found, text::not_found);
  }
}

// Receives the lines of `stats` and writes a packet for each.
class StatPackets final : public StatSink {
 public:
  StatPackets(const Query& query, Output& out) noexcept : query_(query), out_(out) {}
  void stat(std::string_view name, std::string_view value) override {
    write_packet(query_, binary::Status::ok, name, value, 0, out_);
  }
  void end() { stat({}, {}); }

 private:
  const Query& query_;
  Output& out_;
};

// memcached compares only the beginning of some names.
void stats(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out) {
  const std::string_view group = query.key_view();
  Administration& administration = server.administration();
  StatPackets packets(query, out);
  if (group.starts_with("reset")) {
    server.stats("reset", packets);
  } else if (group.starts_with("detail")) {
    const std::string_view word = group.substr(sizeof("detail") - 1);
    if (word.starts_with(" dump")) {
      packets.stat("detailed", administration.detail() + std::string(line::end));
    } else if (word.starts_with(" on") || word.starts_with(" off")) {
      administration.set_detail(word.starts_with(" on"));
    } else {
      return write_status(query, binary::Status::not_found, binary::text::not_found, out);
    }
  } else if (group == "sizes_enable" || group == "sizes_disable") {
    enable_sizes(group == "sizes_enable", options, administration, packets);
  } else if (group == "sizes") {
    // The counts require a walk through the heap, which only the text protocol streams.
    packets.stat("sizes_status", administration.tracks_sizes() ? "enabled" : "disabled");
  } else if (!server.stats(group.starts_with("settings") ? "settings" : group, packets)) {
    return write_status(query, binary::Status::not_found, binary::text::not_found, out);
  }
  packets.end();
}

}  // namespace

void write_binary(const Query& q, const Result& r, const ReplyContext& context) {
  switch (reply_of(q)) {
    case ReplyKind::binary_get:
      return write_get(q, r, false, context);
    case ReplyKind::binary_get_key:
      return write_get(q, r, true, context);
    case ReplyKind::binary_touch:
      return write_touch(q, r, context);
    case ReplyKind::binary_store:
      return write_store(q, r, context);
    case ReplyKind::binary_remove:
      return write_remove(q, r, context);
    case ReplyKind::binary_displaced:
      return write_displaced(q, r, context);
    case ReplyKind::binary_arithmetic:
      return write_arithmetic(q, r, context);
    case ReplyKind::binary_auth:
      if (const auto status = static_cast<binary::Status>(q.client_flags); status != binary::Status::auth_continue)
        context.options.sasl->count_attempt(status == binary::Status::ok);
      [[fallthrough]];
    case ReplyKind::binary_status:
      return write_status(q, static_cast<binary::Status>(q.client_flags), {q.value, q.value_bytes}, context.out);
    default:
      return;
  }
}

void execute_binary_control(const Query& query, const ProtocolOptions& options, ServerControl& server, Output& out) {
  if (reply_of(query) == ReplyKind::binary_stats) return stats(query, options, server, out);
  if (reply_of(query) == ReplyKind::binary_config) return execute_config_packet(query, server.config(), out);
  server.flush_all(query.expiry_s);
  if (!query.has(option::no_reply)) write_status(query, binary::Status::ok, {}, out);
}

}  // namespace tandem::codec
