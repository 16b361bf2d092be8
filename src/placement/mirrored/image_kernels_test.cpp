// Images of items on a device, of many sizes, and the marks of those that were read, against a model on the host.
#include "placement/mirrored/image_kernels.hpp"

#include <gtest/gtest.h>

#include "heap/item_rewrite.hpp"
#include "index/cuckoo/table_kernels_rig.hpp"

namespace tandem {
namespace {

class DeviceImagesContract : public DeviceContract {
 protected:
  static constexpr std::uint32_t granule_count = 4096;

  void make(std::uint32_t item_granules) {
    images_ = {granules_.at(), marks_.at(), granule_count, item_granules};
    model_.assign(granule_count, Granule{});
    marked_.assign(granule_count, false);
    ASSERT_EQ(stream->zero(granules_.bytes_at(), granules_.bytes()), DeviceStatus::ok);
    ASSERT_EQ(stream->zero(marks_.bytes_at(), marks_.bytes()), DeviceStatus::ok);
  }

  // An item of random size and contents: most of them live.
  static std::vector<Granule> random_item(Random& random, std::uint32_t granules) {
    std::vector<Granule> item(granules);
    for (Granule& g : item) {
      for (std::uint64_t& w : g.word) w = random.next();
    }
    const bool has_flags = random.below(4) == 0;
    const std::uint32_t least = (granules - 1) * granule_bytes + 1, head = 16 + (has_flags ? 4 : 0);
    const std::uint32_t bytes = std::max(head + 1, least + random.below(granule_bytes));
    const std::uint32_t key = 1 + random.below(std::min(bytes - head, key_bytes_max));
    std::uint64_t& state = item[0].word[0];
    std::uint64_t& fixed = item[0].word[1];
    state =
        word::State::put(state, static_cast<std::uint64_t>(random.below(16) == 0 ? ItemState::dead : ItemState::live));
    fixed = word::KeyBytes::put(fixed, key);
    fixed = word::ValueBytes::put(fixed, bytes - head - key);
    fixed = word::HasFlags::put(fixed, has_flags ? 1 : 0);
    fixed = word::Huge::put(fixed, random.below(16) == 0 ? 1 : 0);
    return item;
  }

  void apply(const std::vector<Location>& location, const std::vector<Granule>& granules) {
    const PinnedArray<Location> at = pinned(location);
    const PinnedArray<Granule> from = pinned(granules);
    ASSERT_EQ(stream->launch(store_images, {images_, at.at(), from.at(), static_cast<std::uint32_t>(location.size())}),
              DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    for (std::size_t i = 0; i < location.size(); ++i) {
      if (location[i] >= granule_count) continue;
      model_[location[i]] = granules[i];
      marked_[location[i]] = false;
    }
  }

  // Pieces of a ring of so many places, in any order; its first and last ones belong to none.
  static std::vector<RingPiece> pieces_of(Random& random, std::size_t places) {
    std::vector<RingPiece> pieces;
    const auto end = static_cast<std::uint32_t>(places - 1);
    for (std::uint32_t at = 1, count = 0; at != end; at += count) {
      count = std::min(1 + random.below(RingPiece::places_max), end - at);
      pieces.push_back({.first = at, .count = count, .readable = end - at});
    }
    for (std::size_t n = pieces.size(); n > 1; --n)
      std::swap(pieces[n - 1], pieces[random.below(static_cast<std::uint32_t>(n))]);
    return pieces;
  }

  // Writers' images: `locations` of each item's first granule, no_location at the rest.
  void apply_rewrites(Random& random, std::vector<Location> location, std::vector<Granule> granules) {
    for (const bool at_begin : {true, false}) {  // an image that no piece has
      location.insert(at_begin ? location.begin() : location.end(), 1 + random.below(granule_count - 2));
      granules.insert(at_begin ? granules.begin() : granules.end(), random_item(random, 1)[0]);
    }
    const PinnedArray<Location> at = pinned(location);
    const PinnedArray<Granule> from = pinned(granules);
    const PinnedArray<RingPiece> pieces = pinned(pieces_of(random, location.size()));
    lock_ = word::State::put(mix_bits(lock_ + 1), static_cast<std::uint64_t>(ItemState::filling));
    ASSERT_EQ(stream->launch(store_rewrites, {.images = images_,
                                              .granules = from.at(),
                                              .location = at.at(),
                                              .piece = pieces.at(),
                                              .places = static_cast<std::uint32_t>(location.size()),
                                              .count = static_cast<std::uint32_t>(pieces.count()),
                                              .granules_read = static_cast<std::uint32_t>(location.size() - 2),
                                              .lock = lock_}),
              DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    for (std::size_t i = 1; i + 1 < location.size(); ++i) {
      const Location l = location[i];
      if (l == no_location || l >= granule_count) continue;
      const std::uint32_t count = image_granules(granules[i].word[0], granules[i].word[1]);
      if (count > images_.item_granules || count > granule_count - l) continue;
      const Granule& old = model_[l];
      const ItemVersion was{old.word[0], old.word[1]}, now{granules[i].word[0], granules[i].word[1]};
      if (was.is_live() && was.cas() >= now.cas()) continue;
      std::copy_n(granules.begin() + static_cast<std::ptrdiff_t>(i), count, model_.begin() + l);
      marked_[l] = false;
    }
  }

  void expect_model() {
    const PinnedArray<Granule> got(*device, granule_count);
    ASSERT_EQ(stream->copy_to_host(got.data(), granules_.bytes_at(), got.bytes()), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    for (Location l = 0; l < granule_count; ++l)
      ASSERT_TRUE(std::equal(got[l].word, got[l].word + 4, model_[l].word)) << "location " << l;
    const PinnedArray<std::uint32_t> marks(*device, mark_words(granule_count));
    ASSERT_EQ(stream->copy_to_host(marks.data(), marks_.bytes_at(), marks.bytes()), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    for (Location l = 0; l < granule_count; ++l)
      ASSERT_EQ((marks[l / 32] >> l % 32 & 1) != 0, marked_[l]) << "location " << l;
  }

  void mark_all() {
    const PinnedArray<std::uint32_t> ones = pinned(std::vector<std::uint32_t>(mark_words(granule_count), ~0u));
    ASSERT_EQ(stream->copy_to_device(marks_.bytes_at(), ones.data(), ones.bytes()), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    marked_.assign(granule_count, true);
  }

  DeviceImages images_;

 private:
  const DeviceArray<Granule> granules_{*device, granule_count};
  const DeviceArray<std::uint32_t> marks_{*device, mark_words(granule_count)};
  std::vector<Granule> model_;
  std::vector<bool> marked_;
  std::uint64_t lock_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, DeviceImagesContract, testing::ValuesIn(device_kinds()),
                         [](const auto& p) { return p.param.name; });

// Many threads store images of few items, in an order of their own: of each item the largest CAS id stays.
TEST_P(DeviceImagesContract, RewritesAreStoredOverOlderVersions) {
  ASSERT_NO_FATAL_FAILURE(make(image_granules_limit - 1));  // the longest have no image
  Random random(5);
  struct Place {
    Location at;
    std::vector<Granule> item;  // with the lengths that all versions have
  };
  std::vector<Place> places;
  for (Location l = 1; l + image_granules_limit <= granule_count && places.size() < 40;) {
    Place place{l, random_item(random, 1 + random.below(image_granules_limit))};
    std::uint64_t& fixed = place.item[0].word[1];
    fixed = word::Huge::put(fixed, 0);
    place.item[0].word[0] = word::State::put(place.item[0].word[0], static_cast<std::uint64_t>(ItemState::live));
    l += static_cast<Location>(place.item.size());
    places.push_back(std::move(place));
  }
  constexpr std::uint64_t id_step = (std::uint64_t{1} << word::CasLow::width) / 7;  // so that the high part counts, too
  std::uint64_t id = 1;
  for (int launch = 0; launch < 30; ++launch) {
    ASSERT_NO_FATAL_FAILURE(mark_all());
    std::vector<std::uint64_t> ids(2000);
    for (std::uint64_t& i : ids) i = id++ * (launch % 2 == 0 ? id_step : 1) & cas_limit;
    for (std::size_t n = ids.size(); n > 1; --n) std::swap(ids[n - 1], ids[random.below(n)]);
    std::vector<Location> location;
    std::vector<Granule> granules;
    for (const std::uint64_t cas : ids) {
      const Place& place = places[random.below(static_cast<std::uint32_t>(random.below(8) == 0 ? places.size() : 4))];
      std::vector<Granule> item = place.item;
      for (std::size_t w = 2; w < item.size() * 4; ++w) item[w / 4].word[w % 4] = random.next();
      item[0].word[0] = word::CasHigh::put(item[0].word[0], cas >> word::CasLow::width);
      item[0].word[1] = word::CasLow::put(item[0].word[1], cas & word::CasLow::limit);
      const Location at = random.below(50) == 0 ? granule_count + 1 : place.at;
      for (std::size_t g = 0; g < item.size(); ++g) location.push_back(g == 0 ? at : no_location);
      granules.insert(granules.end(), item.begin(), item.end());
      if (random.below(20) == 0) {
        location.push_back(no_location);
        granules.emplace_back();
      }
    }
    ASSERT_NO_FATAL_FAILURE(apply_rewrites(random, location, granules));
    ASSERT_NO_FATAL_FAILURE(expect_model());
    if (launch % 10 == 9) {  // an item that is gone has no version
      ASSERT_NO_FATAL_FAILURE(apply({places[0].at}, {Granule{}}));
    }
    // Where an image begins there may be the middle of an earlier item of another size: any bytes of clients.
    constexpr std::uint64_t values[] = {static_cast<std::uint64_t>(ItemState::filling), ~std::uint64_t{0} << 2 | 1, 2};
    ASSERT_NO_FATAL_FAILURE(
        apply({places[1].at}, {Granule{{values[static_cast<std::size_t>(launch) % std::size(values)], 0, 0, 0}}}));
  }
}

// Items of all sizes, at the end of the copy and beyond it; some are replaced or removed.
TEST_P(DeviceImagesContract, StoredItemsCountAsUnread) {
  ASSERT_NO_FATAL_FAILURE(make(image_granules_limit));
  Random random(3);
  std::vector<Location> item_at, places;
  std::vector<Granule> granules;
  for (Location l = 1; l < granule_count + 20;) {
    const std::uint32_t size = 1 + random.below(image_granules_limit + 2);
    const std::vector<Granule> item = random_item(random, size);
    item_at.push_back(l);
    for (std::uint32_t g = 0; g < size; ++g) places.push_back(l + g);
    granules.insert(granules.end(), item.begin(), item.end());
    l += size;
  }
  ASSERT_NO_FATAL_FAILURE(apply(places, granules));
  ASSERT_NO_FATAL_FAILURE(expect_model());
  for (int launch = 0; launch < 10; ++launch) {
    ASSERT_NO_FATAL_FAILURE(mark_all());
    std::vector<Location> changed;
    std::vector<Granule> to;
    for (int i = 0; i < 20; ++i) {
      const std::size_t n = random.below(static_cast<std::uint32_t>(item_at.size() - 1));
      if (std::ranges::find(changed, item_at[n]) != changed.end()) continue;
      const std::uint32_t room = item_at[n + 1] - item_at[n];
      const std::vector<Granule> item = i % 4 == 0 ? std::vector<Granule>(1) : random_item(random, room);
      for (std::uint32_t g = 0; g < item.size(); ++g) {
        changed.push_back(item_at[n] + g);
        to.push_back(item[g]);
      }
    }
    ASSERT_NO_FATAL_FAILURE(apply(changed, to));
    ASSERT_NO_FATAL_FAILURE(expect_model());
  }
}

}  // namespace
}  // namespace tandem
