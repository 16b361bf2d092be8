#include "codec/range_packets.hpp"

#include <cstring>

#include "codec/packet_writer.hpp"

namespace tandem::codec {

using binary::header_bytes;
static_assert(header_bytes + binary::text::no_memory.size() <= RangeReply::failure_bytes_max);

RangePackets::RangePackets(const Query& query, const ReplyContext& context) noexcept
    : RangeReply(context), query_(query) {
  const char* const extras = query.wire + header_bytes;
  const auto end_bytes = binary::read<std::uint16_t>(extras);
  const auto flags = binary::read<std::uint8_t>(extras + 3);
  const auto limit = binary::read<std::uint32_t>(extras + 4);
  if (limit != 0) limit_ = limit;
  const auto opcode = binary::read<std::uint8_t>(query.wire + binary::at::opcode);
  removes_ = opcode != binary::opcode::rget;
  range_.begin = query.key_view();
  range_.after_begin = query.key_bytes != 0 && (flags & binary::range_flag::begin_inclusive) == 0;
  if (end_bytes == 0) return;
  std::memcpy(end_, extras + binary::range_extras_bytes, end_bytes);
  end_[end_bytes] = '\0';
  range_.end = {end_, end_bytes + std::size_t{(flags & binary::range_flag::end_inclusive) != 0 ? 1u : 0u}};
}

bool RangePackets::item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) {
  const std::string_view key = item.key();
  if (removes_) {  // packets of a thousand keys are no large reply
    ++count_;
    keep_key(key);
    return true;
  }
  const bool pins = value_bytes > copied_value_bytes_max;
  const std::size_t bytes =
      header_bytes + binary::flags_bytes + key.size() + (pins ? 0 : static_cast<std::size_t>(value_bytes));
  if (count_ != 0 && !has_room(bytes, pins ? value_bytes : 0)) return false;
  ++count_;
  char* p = write_header(out_.reserve(bytes), query_, binary::Status::ok, binary::flags_bytes,
                         static_cast<std::uint32_t>(key.size()), static_cast<std::uint32_t>(value_bytes),
                         context_.options.cas ? seen.cas() : 0);
  binary::write(p, item.client_flags());
  p += binary::flags_bytes;
  std::memcpy(p, key.data(), key.size());
  if (!pins) copy_value(p + key.size(), item.value(), static_cast<std::size_t>(value_bytes));
  out_.commit(bytes);
  if (TD_UNLIKELY(pins)) append_pinned_value(context_, item, value_bytes);
  return true;
}

void RangePackets::begin_removal() {
  out_.reserve((is_quiet() ? 0 : count_ * header_bytes + kept_.size()) + header_bytes + key_bytes_max);
}

void RangePackets::removed(std::string_view key) {
  if (!is_quiet()) write_packet(query_, binary::Status::ok, key, {}, 0, out_);
}

void RangePackets::finish(const ScanEnd& end, std::uint64_t) {
  if (end.failed) return fail_for_memory();
  const bool is_cut = !end.done && count_ < limit_;
  if (is_quiet() && !is_cut) return;
  write_packet(query_, is_cut ? binary::Status::too_large : binary::Status::ok, {},
               end.done ? std::string_view() : end.last_key(), 0, out_);
}

void RangePackets::fail_for_memory() { write_status(query_, binary::Status::no_memory, binary::text::no_memory, out_); }

}  // namespace tandem::codec
