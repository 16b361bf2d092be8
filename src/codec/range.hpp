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
#include "codec/reply_writer.hpp"
#include "index/scan.hpp"

namespace tandem::codec {

// Bytes of a reply's items, from which on it ends early. One item may be larger.
inline constexpr std::size_t range_reply_bytes_max = 256 * 1024;

// A request and its reply, which it writes to an output.
class RangeReply final : public ScanSink {
 public:
  // query: of Reply::meta_range; it and what the context refers to outlive the object.
  RangeReply(const Query& query, const ReplyContext& context);

  // Why the request cannot be executed, as a line; empty: it can.
  std::string_view error() const noexcept { return error_; }
  const ScanRange& range() const noexcept { return range_; }
  std::uint32_t limit() const noexcept { return limit_; }
  // mx: the items' keys are kept, and none is written.
  bool removes() const noexcept { return removes_; }
  std::size_t key_count() const noexcept { return count_; }
  // The next key from byte `at` on, which is 0 for the first one, and then the position behind the last.
  std::string_view next_key(std::size_t& at) const noexcept;

  void restart() override;
  bool item(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) override;
  // count: of the items that the reply tells.
  void finish(const ScanEnd& end, std::uint64_t count);

 private:
  // A key of the line, decoded if the line says so.
  struct Key {
    char bytes[base64_binary_bytes_max(base64_bytes(key_bytes_max)) + 3];
    std::size_t count = 0;
    std::string_view view() const noexcept { return {bytes, count}; }
  };

  void read(const Query& query);
  void read_flag(std::string_view flag);
  void keep_key(std::string_view key);
  bool read_key(std::string_view text, Key& to);
  void set_range(std::string_view key);
  void fail(std::string_view line) noexcept { error_ = line; }
  bool has(char flag) const noexcept { return (seen_ & MetaFlags::bit(flag)) != 0; }
  char* write_key(char* p, std::string_view key, bool binary) const noexcept;
  char* write_line(char* p, const Item& item, const ItemVersion& seen, std::uint64_t value_bytes) const noexcept;
  void write_packed(const Item& item, const ItemVersion& seen, std::uint64_t value_bytes);

  const ReplyContext& context_;
  Output& out_;
  const std::size_t begin_, externals_begin_;  // of the reply in the output
  const std::uint64_t pinned_begin_;
  Output block_;            // packed items; or keys, each behind the byte of its length
  std::uint64_t seen_ = 0;  // as MetaFlags::seen
  char shown_[4];           // flags whose values are returned, in order
  std::uint32_t shown_count_ = 0;
  std::string_view opaque_, error_;
  Key low_, high_, after_;
  ScanRange range_;
  std::uint32_t limit_ = 100, count_ = 0;
  bool removes_ = false;
};

}  // namespace tandem::codec
