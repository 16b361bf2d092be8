// `stats detail`: counts commands by the prefix of their key, up to a delimiter. Keys without it are not counted. A
// worker counts a bounded number of prefixes; commands on further ones are counted together.
//
// Thread safety: any thread, except that a Table's count() belongs to one.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tandem::net {

class PrefixStats {
 public:
  static constexpr std::size_t prefixes_max = 2048;  // of a worker: 1 MiB with the longest keys

  struct Counts {
    std::uint64_t gets = 0, hits = 0, sets = 0, removes = 0;
  };

  class Table {
   public:
    explicit Table(char delimiter) noexcept : delimiter_(delimiter) {}
    void count(std::string_view key, const Counts& more);

   private:
    friend class PrefixStats;
    struct Hash : std::hash<std::string_view> {
      using is_transparent = void;
    };
    const char delimiter_;
    std::mutex mutex_;  // guards the rest
    std::unordered_map<std::string, Counts, Hash, std::equal_to<>> counts_;
    std::uint64_t uncounted_ = 0;
  };

  explicit PrefixStats(char delimiter) noexcept : delimiter_(delimiter) {}
  // A table for one thread, which lives as long as this.
  Table& make_table();
  // "PREFIX name get 1 hit 1 set 1 del 0" for each, as memcached writes it.
  std::string dump() const;
  void clear();
  // Commands on prefixes beyond prefixes_max.
  std::uint64_t uncounted() const;
  char delimiter() const noexcept { return delimiter_; }

 private:
  const char delimiter_;
  mutable std::mutex mutex_;  // guards the list
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace tandem::net
