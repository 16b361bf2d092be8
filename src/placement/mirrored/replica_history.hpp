// For tests of replicas: records each key's state while threads write, and checks a launch's answers against it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/racing_copy.hpp"
#include "index/cuckoo/index_test_support.hpp"
#include "placement/mirrored/replica_log.hpp"

namespace tandem {

// Each key has one writer, which records its state here: |63 generation 2|1 busy|0 present|. An item's value is the
// generation, or its expiry if it was touched since it was set.
class KeyHistory {
 public:
  explicit KeyHistory(std::uint64_t keys) : state_(keys) {}
  std::uint64_t keys() const { return state_.size(); }
  std::uint64_t state(std::uint64_t key) const { return state_[key].load(); }
  static bool busy(std::uint64_t state) { return (state & 2) != 0; }
  static bool present(std::uint64_t state) { return (state & 1) != 0; }
  static std::uint64_t generation(std::uint64_t state) { return state >> 2; }

  // One random write of a key with number `writer` modulo `writers`. Returns what is wrong, or "".
  template <IndexKind I>
  std::string write(BasicTestWorker<I>& worker, std::uint64_t random, std::uint64_t writer, std::uint64_t writers) {
    const std::uint64_t key = random % (keys() / writers) * writers + writer;
    const std::uint64_t before = state_[key].load(std::memory_order_relaxed), next = generation(before) + 1;
    state_[key].store(before | 2);
    bool is_present = present(before);
    if (is_present && (random >> 40) % 3 == 0) {
      if (!worker.erase(key_of(key))) return key_of(key) + " was not there to be erased";
      is_present = false;
    } else if (is_present && (random >> 44) % 4 == 0) {
      if (!worker.touch(key_of(key), static_cast<std::uint32_t>(next)))
        return key_of(key) + " was not there to be touched";
    } else if (is_present && (random >> 48) % 2 == 0) {
      if (!worker.rewrite(key_of(key), [next](std::uint64_t) { return next; }))
        return key_of(key) + " was not there to be rewritten";
    } else {
      const auto outcome = worker.set(key_of(key), next);
      if (outcome == BasicTestWorker<I>::Outcome::no_room) {  // until a growth, or an erase in its set
        state_[key].store(before);
        return "";
      }
      is_present = true;
    }
    state_[key].store(next << 2 | (is_present ? 1u : 0u));
    return "";
  }

  struct Answer {
    Location location = no_location;  // what the replica found
    bool final_miss = false;
  };
  struct Counts {
    std::uint64_t hits = 0, final_misses = 0, to_host = 0, decided = 0, images = 0, images_changed = 0;
  };
  // before: the key's state before the launch. REQUIRES: the caller has been in an epoch since then.
  template <IndexKind I>
  std::string check(BasicTestStore<I>& store, std::uint64_t key, std::uint64_t before, Answer answer,
                    Counts& counts) const {
    const Item* item = answer.location == no_location ? nullptr : store.heap.at(answer.location);
    if (item != nullptr && (Item::state_of(item->state_acquire()) != ItemState::live || item->key() != key_of(key))) {
      item = nullptr;
    }
    const std::uint64_t value = item != nullptr ? generation_of(item) : 0;
    counts.hits += item != nullptr;
    counts.final_misses += answer.final_miss;
    counts.to_host += item == nullptr && !answer.final_miss;
    if (busy(before) || state(key) != before) return "";  // it changed meanwhile: either answer is allowed
    ++counts.decided;
    if (!present(before)) return item == nullptr ? "" : key_of(key) + " was found when it was not there";
    if (answer.final_miss) return key_of(key) + " is there, and was taken for absent";
    if (item != nullptr && value != generation(before)) return key_of(key) + ": an old value";
    return "";
  }

  // Checks an image that a launch returned: if nothing has changed since that launch, it equals the item.
  template <IndexKind I>
  std::string check_image(const BasicTestStore<I>& store, std::uint64_t key, const Item* image, std::uint32_t launch,
                          Counts& counts) const {
    const std::uint64_t before = state(key);
    if (!unchanged_since(store.index, store.fingerprint(key_of(key)), launch)) {
      ++counts.images_changed;
      return "";
    }
    const std::uint64_t after = state(key);
    if (image->key() != key_of(key)) {
      const bool is_alike = store.fingerprint(image->key()).signature == store.fingerprint(key_of(key)).signature;
      return is_alike ? "" : key_of(key) + ": the image of another item";
    }
    ++counts.images;
    if (Item::state_of(image->state_acquire()) != ItemState::live) return key_of(key) + ": an image of a dead item";
    const std::uint64_t found = generation_of(image);
    if (found < generation(before)) return key_of(key) + ": an old image";
    if (found > generation(after) + (busy(after) ? 1 : 0)) return key_of(key) + ": an image of nothing";
    if (before == after && !busy(before) && !present(before)) return key_of(key) + ": an image of what was erased";
    return "";
  }

 private:
  static std::uint64_t generation_of(const Item* item) {
    std::uint64_t value = 0;
    racing_copy(reinterpret_cast<char*>(&value), item->value(), sizeof value);
    return std::max<std::uint64_t>(value, Item::expiry_of(item->state_acquire()));
  }

  std::vector<std::atomic<std::uint64_t>> state_;
};

}  // namespace tandem
