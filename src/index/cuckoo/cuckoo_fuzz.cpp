// Any sequence of operations on all kinds of lanes and a plain map: answers and tables must stay the same.
// Input: one byte of table size, one of signatures, then operations of two bytes, a kind and a key.
#include <cstdint>
#include <cstdlib>

#include "index/cuckoo/cuckoo_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint32_t buckets = 2u << data[0] % 5;
  tandem::CuckooCheck check(buckets, data[1] % 8);
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 2; i + 1 < size; i += 2) {
    const std::uint64_t key = data[i + 1] | std::uint64_t{data[i]} / 64 << 8;
    switch (data[i] % 4) {
      case 0:
      case 1:
        check.insert(key);
        break;
      case 2:
        check.remove(key);
        break;
      default:
        keys.push_back(key);
        break;
    }
  }
  check.search(keys);
  check.check_whole();
  if (!check.problem().empty()) {
    std::fprintf(stderr, "%s\n", check.problem().c_str());
    std::abort();
  }
  return 0;
}
