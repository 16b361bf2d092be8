// The commands mr and mx of the meta protocol, Tandem's own: a range is read, or its keys are removed
// (docs/protocol.md). They are read when they are executed.
//
// Thread safety: one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codec/base64.hpp"
#include "codec/meta_flags.hpp"
#include "codec/protocol.hpp"
#include "codec/range_reply.hpp"

namespace tandem::codec {

class RangeLines final : public RangeReply {
 public:
  // query: of ReplyKind::meta_range; it and what the context refers to outlive the object.
  RangeLines(const Query& query, const ReplyContext& context);

  // Why the request cannot be executed, as a line; empty: it can.
  std::string_view error() const noexcept { return error_; }

  bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override;
  void begin_removal() override;
  void finish(const ScanEnd& end, std::uint64_t count) override;
  void fail_for_memory() override;

 private:
  // A key of the line, decoded if the line says so.
  struct Key {
    char bytes[base64_binary_bytes_max(base64_bytes(key_bytes_max)) + 3];
    std::size_t count = 0;
    std::string_view view() const noexcept { return {bytes, count}; }
  };

  void read(const Query& query);
  void check_shown();
  void read_flag(std::string_view flag);
  bool read_key(std::string_view text, Key& to);
  void set_range(std::string_view key);
  void fail(std::string_view line) noexcept { error_ = line; }
  bool has(char flag) const noexcept { return (seen_ & MetaFlags::bit(flag)) != 0; }
  char* write_key(char* p, std::string_view key, bool binary) const noexcept;
  char* write_line(char* p, const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) const noexcept;
  void write_packed(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes);

  std::uint64_t seen_ = 0;  // as MetaFlags::seen
  char shown_[4];           // flags with values to return, in order
  std::uint32_t shown_count_ = 0;
  std::string_view opaque_, error_;
  Key low_, high_, after_;
};

}  // namespace tandem::codec
