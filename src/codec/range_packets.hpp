// RGET, RDELETE and RDELETEQ of the binary protocol: range requests as memcached's document RangeOps has them, which
// memcached itself does not execute. The document has no word for a reply that ends before the range does; here the
// last packet has the key behind which it goes on (docs/protocol.md).
//
// Thread safety: one thread.
#pragma once
#include "codec/binary.hpp"
#include "codec/range_reply.hpp"

namespace tandem::codec {

class RangePackets final : public RangeReply {
 public:
  // query: of ReplyKind::binary_range, which the parser has checked; it and what the context refers to outlive the
  // object.
  RangePackets(const Query& query, const ReplyContext& context) noexcept;

  bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override;
  void begin_removal() override;
  void removed(std::string_view key) override;
  void finish(const ScanEnd& end, std::uint64_t count) override;
  void fail_for_memory() override;

 private:
  bool is_quiet() const noexcept { return query_.has(option::no_reply); }

  const Query& query_;
  char end_[UINT8_MAX - binary::range_extras_bytes + 1];  // the least key above an inclusive end
};

}  // namespace tandem::codec
