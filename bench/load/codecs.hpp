// The protocols' codecs. codec.hpp lists their requests.
#pragma once
#include "bench/load/line_codec.hpp"

namespace tandem::load {

inline constexpr std::string_view no_scans = "this protocol has no scans";  // can_ask(): none is asked for

class TextCodec final : public LineCodec {
 public:
  using LineCodec::LineCodec;
  char* write(const Request& request, const std::uint64_t* keys, char* out) const override;
  ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const override;

 private:
  std::string_view head_of(std::uint64_t key, std::uint32_t value_bytes, bool with_key, Head& head) const override;
};

class MetaCodec final : public LineCodec {
 public:
  MetaCodec(const Contents& contents, bool verify, bool getk) : LineCodec(contents, verify), getk_(getk) {}
  char* write(const Request& request, const std::uint64_t* keys, char* out) const override;
  ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const override;

 private:
  std::string_view head_of(std::uint64_t key, std::uint32_t value_bytes, bool with_key, Head& head) const override;
  // The answer to a get with K. Returns whether it is for the requested key.
  bool take_compared(ReplyCursor& in, std::uint64_t key) const;
  class ScanKeys;  // of a scan's reply
  ReplyCheck check_scan(const Request& request, std::string_view data) const;
  void take_item(ReplyCursor& in, ScanKeys& seen) const;
  void take_scan_end(ReplyCursor& in, ScanKeys& seen) const;

  const bool getk_;
};

class BinaryCodec final : public Codec {
 public:
  using Codec::Codec;
  char* write(const Request& request, const std::uint64_t* keys, char* out) const override;
  ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const override;

 private:
  // The answer to one get, getkq included, after the check of its opcode and opaque.
  ReplyCheck check_value(std::uint64_t key, bool with_key, std::string_view data) const;
};

class RespCodec final : public Codec {
 public:
  using Codec::Codec;
  char* write(const Request& request, const std::uint64_t* keys, char* out) const override;
  ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const override;

 private:
  bool take_value(ReplyCursor& in, std::uint64_t key) const;
};

}  // namespace tandem::load
