// Any sequence of operations on a tree of tiny leaves and on a sorted map: answers and order must stay the same.
// Input: a byte (its lowest bit makes fingerprints collide, the next one makes nodes large, the third one makes leaves
// of order alone), then operations: a kind,
// the key's length, its bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>

#include "index/hash_tree/key_tree_test_support.hpp"

namespace {

using Model = std::map<std::string, std::uint64_t>;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  // Repeats its last byte: long keys from short inputs.
  std::string key() {
    const std::size_t bytes = byte() % 250 + 1, given = byte() % 8 + 1;
    std::string key;
    while (key.size() < std::min(bytes, given)) key.push_back(static_cast<char>(byte()));
    key.insert(0, bytes - key.size(), key.back());
    return key;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

template <class W>
void check_scan(W& worker, const Model& model, Input& input) {
  const std::uint8_t form = input.byte();
  const std::string begin = (form & 1) != 0 ? input.key() : "", end = (form & 2) != 0 ? input.key() : "";
  const tandem::ScanRange range{.begin = begin, .end = end, .after_begin = (form & 4) != 0, .reverse = (form & 8) != 0};
  tandem::TreePairs wanted;
  for (const auto& pair : model) {
    if (!range.is_below(pair.first) && !range.is_above(pair.first)) wanted.emplace_back(pair);
  }
  if (range.reverse) std::reverse(wanted.begin(), wanted.end());
  worker.prefetch_scans(range.begin, range.end);
  if (worker.scan_all(range, form / 16u + 1) != wanted) std::abort();
}

template <class Tree>
void check(Input& input, std::uint8_t form) {
  tandem::BasicTreeStore<Tree> store(16, std::uint64_t{64} << 20, (form & 1) != 0, (form & 2) != 0 ? 256 : 8);
  tandem::BasicTreeWorker worker(store);
  Model model;
  std::uint64_t value = 0;
  while (!input.empty()) {
    const std::uint8_t kind = input.byte();
    if (kind % 16 == 15) {
      check_scan(worker, model, input);
      continue;
    }
    const std::string key = input.key();
    if (kind % 16 < 10) {
      // Several keys beside each other, so that short inputs split leaves.
      for (int i = 0; i <= kind / 16; ++i) {
        std::string one = key;
        one.back() = static_cast<char>(one.back() + i);
        if (!worker.set(one, ++value)) std::abort();
        model[one] = value;
      }
    } else if (kind % 16 < 13) {
      if (worker.erase(key) != (model.erase(key) == 1)) std::abort();
    } else if (kind % 16 == 13) {
      store.tree.grow();
      const auto found = model.find(key);
      if (worker.get(key) != (found != model.end() ? std::optional(found->second) : std::nullopt)) std::abort();
    } else {
      // Everything from the key on, in one go, so that leaves are merged.
      for (auto at = model.lower_bound(key); at != model.end(); at = model.erase(at)) {
        if (!worker.erase(at->first)) std::abort();
      }
    }
  }
  if (!worker.is_correct() || store.tree.item_count() != model.size()) std::abort();
  if (worker.scan_all({}, 1024) != tandem::TreePairs(model.begin(), model.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096) return 0;
  Input input(data, size);
  const std::uint8_t form = input.byte();
  (form & 4) != 0 ? check<tandem::OrderTree>(input, form) : check<tandem::HashTree>(input, form);
  return 0;
}
