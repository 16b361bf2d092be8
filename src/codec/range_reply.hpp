// A request for a range of keys and its reply, which is written to an output while the range is scanned: what the two
// protocols have in common (docs/protocol.md). The range is read, or its keys are removed.
//
// Thread safety: one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codec/reply_writer.hpp"
#include "index/scan.hpp"

namespace tandem::codec {

// Bytes of a reply's items, from which on it ends early. One item may be larger.
inline constexpr std::size_t range_reply_bytes_max = 256 * 1024;

class RangeReply : public ItemSink {
 public:
  const ScanRange& range() const noexcept { return range_; }
  std::uint32_t limit() const noexcept { return limit_; }
  // The keys are kept, and no item is written.
  bool removes() const noexcept { return removes_; }
  std::size_t key_count() const noexcept { return removes_ ? count_ : 0; }
  // The next key from byte `at` on, which is 0 for the first one, and then the position behind the last.
  std::string_view next_key(std::size_t& at) const noexcept;

  void restart() final;
  // All keys are known, and none has been removed. Throws std::bad_alloc; then what is told of the removal does not.
  virtual void begin_removal() = 0;
  virtual void removed(std::string_view) {}
  // The reply's end. count: of the items that are read, or removed.
  virtual void finish(const ScanEnd& end, std::uint64_t count) = 0;
  // In place of the reply.
  static constexpr std::size_t failure_bytes_max = 64;
  virtual void fail_for_memory() = 0;

 protected:
  // The context outlives the object.
  explicit RangeReply(const ReplyContext& context);

  // Whether the reply may have so many bytes more, copied ones and those of a value that is pinned.
  bool has_room(std::size_t copied, std::uint64_t pinned) const noexcept;
  void keep_key(std::string_view key);

  const ReplyContext& context_;
  Output& out_;
  Output kept_;  // keys, each behind the byte of its length; or packed items
  ScanRange range_;
  std::uint32_t limit_ = UINT32_MAX, count_ = 0;  // of items taken
  bool removes_ = false;

 private:
  const std::size_t begin_, externals_begin_;  // of the reply in the output
  const std::uint64_t pinned_begin_;
};

}  // namespace tandem::codec
