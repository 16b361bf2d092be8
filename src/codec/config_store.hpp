// The documents of `config get`: small values that operators publish and clients poll. `cluster` is a fleet's list of
// nodes, in the form that the clients of ElastiCache read:
//
//   <version>\n<host>|<ip>|<port> <host>|<ip>|<port> ...\n
//
// Clients take over a list of a greater version, or only another one, so a list never goes back: a set of `cluster`
// needs a greater version, or is the same document again.
//
// Thread safety: any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What a connection may do with them. none: the server has no such commands.
enum class ConfigAccess : std::uint8_t { none, read, write };

enum class ConfigAction : std::uint8_t { get, set, remove, list };

class ConfigStore {
 public:
  static constexpr std::size_t values_max = 8;
  static constexpr std::size_t value_bytes_max = std::size_t{16} * 1024;
  static constexpr std::uint64_t version_max = (std::uint64_t{1} << 53) - 1;  // which every client's number holds
  static constexpr std::string_view cluster = "cluster";

  struct Value {
    std::uint32_t flags = 0;
    std::string bytes;
  };

  // Why the value is refused, in words that follow "config", and then nothing has changed; empty: it is stored.
  // REQUIRES: `value` has at most value_bytes_max.
  std::string set(std::string_view key, std::uint32_t flags, std::string_view value);
  // False: there is none.
  bool remove(std::string_view key);
  // Calls found(const Value&) while the value stays as it is. False: there is none.
  template <class F>
  bool get(std::string_view key, F found) const {
    const std::lock_guard lock(mutex_);
    const auto place = values_.find(key);
    if (place == values_.end()) return false;
    found(place->second);
    return true;
  }
  std::vector<std::string> keys() const;
  std::size_t size() const;
  // Of `cluster`; 0: there is none.
  std::uint64_t version() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, Value, std::less<>> values_;
  std::uint64_t version_ = 0;
};

// The parts of a list of nodes. A number is decimal, without sign, space or leading zero; a host is in lower case,
// because a client stops reading at the letters END wherever they stand.
bool read_list_number(std::string_view text, std::uint64_t least, std::uint64_t most, std::uint64_t& to) noexcept;
bool is_list_host(std::string_view text) noexcept;
bool is_list_address(std::string_view text);

}  // namespace tandem
