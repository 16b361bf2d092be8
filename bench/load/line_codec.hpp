// Shared by the text and the meta protocol: replies of lines, with values between them.
#pragma once
#include "bench/load/codec.hpp"
#include "bench/load/reply_cursor.hpp"

namespace tandem::load {

class LineCodec : public Codec {
 public:
  using Codec::Codec;

 protected:
  // The line before a value of `key`, as in the reply to a multiget or (`with_key` false) to a get.
  using Head = char[workload::key_bytes_max + 64];
  virtual std::string_view head_of(std::uint64_t key, std::uint32_t value_bytes, bool with_key, Head& head) const = 0;

  // One found value: its line, its bytes, the line end.
  void take_value(ReplyCursor& in, std::uint64_t key, bool with_key) const;
  // The values of a multiget, in the order of its keys; some may be missing. Returns their number.
  std::uint32_t take_values(ReplyCursor& in, const std::uint64_t* keys, std::uint32_t key_count) const;
  // The head "VA n kKEY\r\n" of a value of a key other than `key`, not consumed; no bytes: it is not one.
  struct OtherHead {
    std::size_t head_bytes;
    std::uint32_t value_bytes;
  };
  OtherHead read_other_head(ReplyCursor& in, std::uint64_t key) const;
  // Skips a value of this length, whatever it is, and its line end.
  void skip_bytes(ReplyCursor& in, std::uint32_t value_bytes) const;
  struct Announced {
    std::size_t head_bytes;
    std::uint32_t value_bytes;
  };
  // Parses a line that begins with V, whichever key it names; {} if `in` is no longer good.
  Announced read_head(ReplyCursor& in) const;
  // The value's bytes after its head.
  void take_bytes(ReplyCursor& in, std::uint64_t key, std::uint32_t value_bytes) const;

 private:
  // The known or announced length of the value of `key`; 0 if `in` is no longer good.
  std::uint32_t length_of(ReplyCursor& in, std::uint64_t key) const;
  std::uint32_t take_unchecked(ReplyCursor& in, const std::uint64_t* keys, std::uint32_t key_count) const;
};

}  // namespace tandem::load
