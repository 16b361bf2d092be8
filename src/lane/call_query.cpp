#include "lane/call_query.hpp"

#include <algorithm>

#include "base/racing_copy.hpp"

namespace tandem::lane {
namespace {

Code code_of(Status status, std::uint8_t outcomes) noexcept {
  switch (status) {
    case Status::hit:
    case Status::number:
      return Code::hit;
    case Status::stored:
      return Code::stored;
    case Status::not_stored:
      return (outcomes & outcome::too_large) != 0 ? Code::too_large : Code::not_stored;
    case Status::exists:
      return Code::exists;
    case Status::removed:
      return Code::removed;
    case Status::not_a_number:
      return Code::not_a_number;
    case Status::too_large:
      return Code::too_large;
    case Status::out_of_memory:
      return Code::out_of_memory;
    case Status::none:
      return Code::bad_key;
    case Status::miss:
    case Status::not_found:
      break;
  }
  return Code::miss;
}

void fill_common(Query& q, std::string_view key, Opcode opcode) noexcept {
  q.key = key.data();
  q.value = nullptr;
  q.value_bytes = 0;
  q.key_bytes = static_cast<std::uint8_t>(key.size());
  q.opcode = opcode;
  q.options = 0;
}

// The reply of a write that returns the item it has displaced, which is not rewritten any more.
void fill_displaced(Reply& reply, const Result& r) noexcept {
  if (reply.code == Code::stored) reply.code = Code::hit;
  reply.key_bytes = static_cast<std::uint8_t>(r.item->key_bytes());
  reply.value = {r.item->bytes() + r.value_offset, r.value_bytes};
  reply.flags = r.item->client_flags();
  reply.cas = r.item->cas(r.state);
}

}  // namespace

void fill(Query& q, const Request& request, const Clock& clock) noexcept {
  if (!is_good_key(request.key)) return fill_common(q, request.key, Opcode::nothing);
  const auto store = [&](StoreMode mode) {
    fill_common(q, request.key, Opcode::store);
    q.mode = mode;
    q.value = request.value.data();
    q.value_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(request.value.size(), UINT32_MAX));
    q.client_flags = request.flags;
    q.expiry_s = clock.expiry_s(request.ttl_s);
  };
  const auto arithmetic = [&](std::uint16_t options) {
    fill_common(q, request.key, Opcode::arithmetic);
    q.options = options;
    q.delta = request.delta;
  };
  switch (request.action) {
    case Action::get:
      fill_common(q, request.key, Opcode::get);
      q.options = options_of(request.key_check);
      return;
    case Action::touch:
      fill_common(q, request.key, Opcode::touch);
      q.expiry_s = clock.expiry_s(request.ttl_s);
      return;
    case Action::set:
      return store(StoreMode::set);
    case Action::add:
      return store(StoreMode::add);
    case Action::replace:
      return store(StoreMode::replace);
    case Action::append:
      return store(StoreMode::append);
    case Action::prepend:
      return store(StoreMode::prepend);
    case Action::compare_and_set:
      store(StoreMode::set);
      q.options = option::compare_cas;
      q.cas = request.cas;
      return;
    case Action::exchange:
      store(StoreMode::set);
      q.options = option::returns_old;
      return;
    case Action::remove:
    case Action::compare_and_remove:
    case Action::take:
      fill_common(q, request.key, Opcode::remove);
      if (request.action == Action::compare_and_remove) q.options = option::compare_cas;
      if (request.action == Action::take) q.options = option::returns_old;
      q.cas = request.cas;
      return;
    case Action::increment:
      return arithmetic(0);
    case Action::decrement:
      return arithmetic(option::decrement);
  }
}

void fill_hit(Reply& reply, const Item* item, std::uint64_t found_state, std::uint64_t value_bytes,
              char** copy) noexcept {
  const std::uint32_t key_bytes = item->key_bytes();
  const std::uint32_t key_at = item->key_offset();
  reply.code = Code::hit;
  reply.key_bytes = static_cast<std::uint8_t>(key_bytes);
  reply.flags = item->client_flags();
  reply.number = 0;
  if (TD_UNLIKELY(value_bytes > rewritten_value_bytes_max)) {
    reply.value = {item->bytes() + key_at + key_bytes, value_bytes};
    reply.cas = item->cas(found_state);
    return;
  }
  char* const to = *copy;
  const std::uint64_t bytes = key_bytes + value_bytes;
  copy_validated(item, found_state, [&](const ItemVersion& seen) noexcept {
    racing_copy(to, item->bytes() + key_at, bytes);
    reply.cas = seen.cas();
  });
  reply.value = {to + key_bytes, value_bytes};
  *copy = to + bytes;
}

void fill_reply(Reply& reply, const Query& q, const Result& r, char** copy) noexcept {
  if (q.opcode == Opcode::get && r.status == Status::hit) return fill_hit(reply, r.item, r.state, r.value_bytes, copy);
  reply = {};
  reply.code = code_of(r.status, r.outcome);
  switch (r.status) {
    case Status::stored:
      reply.cas = r.number;
      [[fallthrough]];
    case Status::removed:
      if ((r.outcome & outcome::displaced) != 0) fill_displaced(reply, r);
      break;
    case Status::number:
      reply.number = r.number;
      break;
    default:
      break;
  }
}

}  // namespace tandem::lane
