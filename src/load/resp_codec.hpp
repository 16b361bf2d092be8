// The protocol of Redis and its kin (RESP), as far as a store of keys and values needs it.
//
//   get       GET k
//   multiget  MGET k...
//   set       SET k v [EX TTL]
//   remove    DEL k
//   touch     EXPIRE k TTL, or TOUCH k when nothing expires
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/
#pragma once
#include "load/codec.hpp"
#include "load/reply_cursor.hpp"

namespace tandem::load {

class RespCodec final : public Codec {
 public:
  using Codec::Codec;
  char* write(const Request& request, const std::uint64_t* keys, char* out) const override;
  ReplyCheck check(const Request& request, const std::uint64_t* keys, std::string_view data) const override;

 private:
  char* write_command(std::string_view name, std::uint64_t words, char* out) const;
  char* write_key(std::uint64_t key, char* out) const;
  // A value of `key` or the sign that there is none; whether there is one.
  bool take_value(ReplyCursor& in, std::uint64_t key) const;
};

}  // namespace tandem::load
