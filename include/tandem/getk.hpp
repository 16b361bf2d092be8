// Reads that leave the comparison of keys to the client, over any connection to a server (mg's flag K,
// docs/protocol.md of the source tree; Mega-KV 8.1, `getk`). The server may answer with an item of another key with a
// similar hash; here the keys are compared, and a key that got another key's item is asked for again, exactly. In
// process: Session::get_batch_checked().
//
// Header only, of the standard library alone, so that it fits into any client of the meta protocol. Thread safety: each
// connection by one thread at a time.
#pragma once
#if __cplusplus < 202002L
#error "tandem/getk.hpp needs C++20: compile with -std=c++20"
#endif
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Appends "mg KEY v K". False, and nothing is appended: the protocol has no such key (1 to 250 bytes, none of them a
// space or a control character).
inline bool append_getk(std::string& out, std::string_view key) {
  constexpr std::size_t longest = 250;
  const auto separates = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; };
  if (key.empty() || key.size() > longest || std::ranges::any_of(key, separates)) return false;
  out.append("mg ").append(key).append(" v K\r\n");
  return true;
}

// Appends the exact get that asks again; its answer has the same form. REQUIRES: append_getk() took the
// key.
inline void append_get_again(std::string& out, std::string_view key) {
  out.append("mg ").append(key).append(" v k\r\n");
}

struct GetkReply {
  enum class Code : std::uint8_t {
    partial,    // the rest of it has not been received
    hit,        // the key's value
    miss,       // the key has none
    other_key,  // an item of another key: says nothing about this one
    wrong       // no answer to such a get: an error line, or the replies are out of step
  };
  Code code = Code::partial;
  std::size_t bytes = 0;        // of `received` that the reply takes; 0: partial, wrong
  std::string_view value = {};  // of a hit; lies in `received`
};

namespace getk_internal {

// Whether `named` is `key` in base64, as keys stored in binary (flag b) are named.
inline bool is_base64_of(std::string_view named, std::string_view key) noexcept {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (named.size() != (key.size() + 2) / 3 * 4) return false;
  const auto byte = [key](std::size_t i) { return i < key.size() ? static_cast<unsigned char>(key[i]) : 0u; };
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::size_t first = i / 4 * 3;
    const unsigned group = byte(first) << 16 | byte(first + 1) << 8 | byte(first + 2);
    const bool is_padding = first + i % 4 > key.size();
    if (named[i] != (is_padding ? '=' : digits[group >> (18 - i % 4 * 6) & 63])) return false;
  }
  return true;
}

}  // namespace getk_internal

// The answer to append_getk() or append_get_again() for `key`, with which `received` begins. Reads no byte past it.
inline GetkReply read_getk_reply(std::string_view received, std::string_view key) noexcept {
  using Code = GetkReply::Code;
  constexpr std::size_t line_bytes_max = 512;
  constexpr std::uint32_t value_bytes_max = std::uint32_t{1} << 30;  // no server of ours has larger items
  const std::size_t end = received.substr(0, line_bytes_max).find("\r\n");
  if (end == received.npos) return {received.size() < line_bytes_max ? Code::partial : Code::wrong};
  std::string_view rest = received.substr(0, end);
  const auto next_word = [&rest] {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    return word;
  };
  const std::string_view kind = next_word();
  const bool is_hit = kind == "VA";
  if (!is_hit && kind != "EN") return {Code::wrong};
  std::uint32_t value_bytes = 0;
  if (is_hit) {
    const std::string_view length = next_word();
    const auto [stop, error] = std::from_chars(length.data(), length.data() + length.size(), value_bytes);
    if (length.empty() || error != std::errc{} || stop != length.data() + length.size()) return {Code::wrong};
    if (value_bytes > value_bytes_max) return {Code::wrong};
  }
  std::string_view named;
  bool is_binary = false;
  while (!rest.empty()) {
    const std::string_view flag = next_word();
    if (flag.size() > 1 && flag.front() == 'k' && named.empty()) named = flag.substr(1);
    is_binary = is_binary || flag == "b";
  }
  const bool is_named = is_binary ? getk_internal::is_base64_of(named, key) : named == key;
  const std::size_t head_bytes = end + 2;
  if (!is_hit) return is_named ? GetkReply{Code::miss, head_bytes} : GetkReply{Code::wrong};
  if (named.empty()) return {Code::wrong};
  const std::string_view body = received.substr(head_bytes);
  if (body.size() < std::size_t{value_bytes} + 2) return {Code::partial};
  if (body.substr(value_bytes, 2) != "\r\n") return {Code::wrong};
  const std::size_t bytes = head_bytes + value_bytes + 2;
  if (!is_named) return {Code::other_key, bytes};
  return {Code::hit, bytes, body.substr(0, value_bytes)};
}

struct GetkBatch {
  enum class End : std::uint8_t {
    done,     // all keys were answered
    bad_key,  // one of the keys is none: nothing was sent
    closed,   // the connection ended
    wrong     // the server said something else; the connection is of no more use
  };
  End end = End::done;
  std::uint64_t asked_again = 0;  // keys of which another key's item came first
};

// Gets many keys: visit(i, value) for each keys[i] that has one, in any order, before it returns; the view is valid
// while visit runs. `connection` has
//   bool send(std::string_view)                all of it, or false
//   std::size_t receive(std::span<char>)       at least a byte, or 0: there is no more
// both of which may block. 64 keys are on their way at a time, so that neither side waits for the other to read.
template <class Connection, class Visitor>
GetkBatch getk_batch(Connection& connection, std::span<const std::string_view> keys, Visitor&& visit) {
  constexpr std::size_t keys_at_once = 64, receive_bytes = 16 << 10;
  GetkBatch result;
  std::string requests, received;
  for (const std::string_view key : keys) {
    requests.clear();
    if (!append_getk(requests, key)) return {GetkBatch::End::bad_key};
  }
  std::size_t taken = 0;
  const auto answer_of = [&](std::string_view key) {
    for (;;) {
      const GetkReply reply = read_getk_reply(std::string_view(received).substr(taken), key);
      if (reply.code != GetkReply::Code::partial) return reply;
      received.erase(0, taken);
      taken = 0;
      const std::size_t had = received.size();
      received.resize(had + receive_bytes);
      const std::size_t more = connection.receive(std::span(received).subspan(had));
      received.resize(had + more);
      if (more == 0) return reply;
    }
  };
  std::vector<std::size_t> now, again;
  for (std::size_t first = 0; first < keys.size(); first += keys_at_once) {
    now.clear();
    for (std::size_t i = first; i < std::min(first + keys_at_once, keys.size()); ++i) now.push_back(i);
    for (bool is_exact = false; !now.empty(); is_exact = true, std::swap(now, again)) {
      requests.clear();
      again.clear();
      for (const std::size_t i : now) {
        if (is_exact) {
          append_get_again(requests, keys[i]);
        } else {
          append_getk(requests, keys[i]);
        }
      }
      if (!connection.send(requests)) return {GetkBatch::End::closed, result.asked_again};
      for (const std::size_t i : now) {
        const GetkReply reply = answer_of(keys[i]);
        taken += reply.bytes;
        if (reply.code == GetkReply::Code::hit) {
          visit(i, reply.value);
        } else if (reply.code == GetkReply::Code::other_key && !is_exact) {
          again.push_back(i);
        } else if (reply.code != GetkReply::Code::miss) {
          const bool is_closed = reply.code == GetkReply::Code::partial;
          return {is_closed ? GetkBatch::End::closed : GetkBatch::End::wrong, result.asked_again};
        }
      }
      result.asked_again += again.size();
    }
  }
  return result;
}

}  // namespace tandem
