// Parses replies of the line protocols.
#pragma once
#include <charconv>
#include <cstring>
#include <string_view>

#include "bench/load/request.hpp"

namespace tandem::load {

inline char* put(char* out, std::string_view text) noexcept {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

inline char* put_number(char* out, std::uint64_t number) noexcept { return std::to_chars(out, out + 20, number).ptr; }

// Consumes literals from the front of a reply that may be incomplete. Thread safety: none.
struct ReplyCursor {
  std::string_view data;
  std::size_t position = 0;
  ReplyStatus status = ReplyStatus::complete;
  std::string_view what = {};
  bool has_wrong_value = false;

  std::string_view rest() const noexcept { return data.substr(position); }
  bool is_good() const noexcept { return status == ReplyStatus::complete; }
  bool starts_with(char first) const noexcept { return position < data.size() && data[position] == first; }

  void fail(std::string_view complaint) noexcept {
    status = ReplyStatus::wrong;
    what = complaint;
  }

  void expect(std::string_view literal, std::string_view complaint) noexcept {
    if (!is_good()) return;
    const std::string_view got = rest().substr(0, literal.size());
    if (!literal.starts_with(got)) {
      fail(complaint);
    } else if (got.size() < literal.size()) {
      status = ReplyStatus::partial;
    } else {
      position += literal.size();
    }
  }

  // Expects one of two lines; returns whether it was the first. They differ within their first bytes.
  bool expect_either(std::string_view first, std::string_view second, std::string_view complaint) noexcept {
    const bool is_second = position < data.size() && data[position] != first.front();
    expect(is_second ? second : first, complaint);
    return !is_second;
  }

  ReplyCheck result(std::uint32_t hits) const noexcept {
    if (is_good() && has_wrong_value) return {ReplyStatus::wrong_value, hits, position, what};
    return {status, hits, position, what};
  }
};

}  // namespace tandem::load
