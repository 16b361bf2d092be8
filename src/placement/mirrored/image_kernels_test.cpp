// Images of items on a device, against a model on the host: what a search returns of items of many sizes, and the
// marks.
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
    read_.assign(granule_count, false);
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
      read_[location[i]] = false;
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
      read_[l] = false;
    }
  }

  DeviceStatus launch_search(const TestedTable& table, std::span<const SearchPart> parts) {
    SearchArguments search{
        .index = table.index(), .images = images_, .parts = static_cast<std::uint32_t>(parts.size())};
    std::ranges::copy(parts, search.part.begin());
    return stream->launch(search_table, search);
  }

  // Searches for the keys in several parts and compares the results with the model.
  void search(const TestedTable& table, const std::vector<Fingerprint>& keys, const std::vector<Location>& expected) {
    const auto count = static_cast<std::uint32_t>(keys.size());
    const PinnedArray<Fingerprint> f = pinned(keys);
    const PinnedArray<Location> location(*device, count);
    std::vector<std::uint32_t> wanted(count);
    for (std::uint32_t i = 0; i < count; ++i) wanted[i] = i % 5 == 3 ? 0 : 1 + i;
    const PinnedArray<std::uint32_t> image = pinned(wanted);
    const PinnedArray<Granule> arena(*device, std::uint64_t{count} * images_.item_granules);
    std::vector<SearchPart> parts;
    for (std::uint32_t begin = 0, size = 1; begin < count; begin += size, size = size * 3 + 1) {
      size = std::min(size, count - begin);
      parts.push_back({.fingerprints = f.at(begin).address(),
                       .locations = location.at(begin).address(),
                       .count = size,
                       .images = image.at(begin).address(),
                       .arena = arena.at(std::uint64_t{begin} * images_.item_granules).address()});
    }
    ASSERT_EQ(launch_search(table, parts), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    std::uint32_t begin = 0;
    for (const SearchPart& part : parts) {
      std::vector<bool> used(std::size_t{part.count} * images_.item_granules, false);
      for (std::uint32_t i = begin; i < begin + part.count; ++i) {
        ASSERT_EQ(location[i], expected[i]);
        const Location l = expected[i];
        std::uint32_t granules =
            l == no_location || l >= granule_count ? 0 : image_granules(model_[l].word[0], model_[l].word[1]);
        if (granules > images_.item_granules || granules > granule_count - l || wanted[i] == 0) granules = 0;
        ASSERT_EQ(image[i] != 0, granules != 0) << "query " << i << ", location " << l;
        if (granules == 0) continue;
        const std::uint64_t at = image[i] - 1;
        ASSERT_LE(at + granules, used.size());
        for (std::uint32_t g = 0; g < granules; ++g) {
          ASSERT_FALSE(used[at + g]) << "two images share a granule";
          used[at + g] = true;
          Granule got = arena[std::uint64_t{begin} * images_.item_granules + at + g];
          Granule expected_granule = model_[l + g];
          if (g == 0) {
            // Exactly one of several queries for an item reports its first read.
            ASSERT_TRUE(!read_[l] || word::Accessed::get(got.word[0]) == 1);
            first_.insert(word::Accessed::get(got.word[0]) == 0 ? l : no_location);
            seen_.insert(l);
            got.word[0] = word::Accessed::put(got.word[0], 0);
            expected_granule.word[0] = word::Accessed::put(expected_granule.word[0], 0);
          }
          ASSERT_TRUE(std::equal(got.word, got.word + 4, expected_granule.word)) << "query " << i << ", granule " << g;
        }
      }
      begin += part.count;
    }
    first_.erase(no_location);
    for (const Location l : seen_) {
      ASSERT_EQ(first_.contains(l), !read_[l]) << "location " << l;
      read_[l] = true;
    }
    first_.clear();
    seen_.clear();
  }

  void expect_model() {
    const PinnedArray<Granule> got(*device, granule_count);
    ASSERT_EQ(stream->copy_to_host(got.data(), granules_.bytes_at(), got.bytes()), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    for (Location l = 0; l < granule_count; ++l)
      ASSERT_TRUE(std::equal(got[l].word, got[l].word + 4, model_[l].word)) << "location " << l;
  }

  void clear_marks() {
    ASSERT_EQ(stream->zero(marks_.bytes_at(), marks_.bytes()), DeviceStatus::ok);
    read_.assign(granule_count, false);
  }

  DeviceImages images_;

 private:
  const DeviceArray<Granule> granules_{*device, granule_count};
  const DeviceArray<std::uint32_t> marks_{*device, mark_words(granule_count)};
  std::vector<Granule> model_;
  std::vector<bool> read_;
  std::set<Location> first_, seen_;
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

TEST_P(DeviceImagesContract, SearchesReturnItems) {
  for (const std::uint32_t item_granules : {1u, 4u, image_granules_limit}) {
    SCOPED_TRACE(testing::Message() << item_granules << " granules at most");
    ASSERT_NO_FATAL_FAILURE(make(item_granules));
    Random random(item_granules);
    const CheckTable host(1024);
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
    for (std::size_t n = 0; n < item_at.size(); ++n)
      ASSERT_TRUE(cuckoo_scalar.insert(host.view(), check_fingerprint(n, 0), item_at[n]));
    const TestedTable table(*device, *stream, 1024);
    upload(table.buckets(), host.view().buckets, 1024);
    ASSERT_NO_FATAL_FAILURE(apply(places, granules));
    for (const std::uint32_t count : {1u, 31u, 33u, 128u, 1000u, 5000u}) {
      std::vector<Fingerprint> keys(count);
      for (Fingerprint& f : keys) f = check_fingerprint(random.below(item_at.size() * 5 / 4), 0);
      std::vector<Location> expected(count);
      cuckoo_scalar.search_in_turn(host.view(), keys.data(), count, expected.data(), nullptr);
      ASSERT_NO_FATAL_FAILURE(search(table, keys, expected));
      if (count == 33) {
        ASSERT_NO_FATAL_FAILURE(clear_marks());
      }
      // Some are replaced or removed; those count as unread.
      std::vector<Location> changed;
      std::vector<Granule> to;
      for (int i = 0; i < 20; ++i) {
        const std::size_t n = random.below(item_at.size() - 1);
        if (std::ranges::find(changed, item_at[n]) != changed.end()) continue;
        const std::uint32_t room = item_at[n + 1] - item_at[n];
        const std::vector<Granule> item = i % 4 == 0 ? std::vector<Granule>(1) : random_item(random, room);
        for (std::uint32_t g = 0; g < item.size(); ++g) {
          changed.push_back(item_at[n] + g);
          to.push_back(item[g]);
        }
      }
      ASSERT_NO_FATAL_FAILURE(apply(changed, to));
    }
  }
}

TEST_P(DeviceImagesContract, OnlyPartsThatAskGetImages) {
  ASSERT_NO_FATAL_FAILURE(make(1));
  const CheckTable host(2);
  const Fingerprint f = check_fingerprint(1, 0);
  ASSERT_TRUE(cuckoo_scalar.insert(host.view(), f, 7));
  const TestedTable table(*device, *stream, 2);
  upload(table.buckets(), host.view().buckets, 2);
  const std::uint64_t fixed = word::KeyBytes::put(word::ValueBytes::put(0, 8), 8);
  ASSERT_NO_FATAL_FAILURE(apply({7}, {Granule{{static_cast<std::uint64_t>(ItemState::live), fixed, 3, 4}}}));
  const PinnedArray<Fingerprint> keys = pinned(std::vector<Fingerprint>(2, f));
  const PinnedArray<Location> location = pinned(std::vector<Location>(2, 0));
  const PinnedArray<std::uint32_t> image = pinned(std::vector<std::uint32_t>(2, 99));
  const PinnedArray<Granule> arena(*device, 2);
  const SearchPart parts[2] = {
      {keys.at().address(), location.at().address(), 1},
      {keys.at(1).address(), location.at(1).address(), 1, image.at(1).address(), arena.at(1).address()}};
  ASSERT_EQ(launch_search(table, parts), DeviceStatus::ok);
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  EXPECT_EQ(location[0], 7u);
  EXPECT_EQ(location[1], 7u);
  EXPECT_EQ(image[0], 99u);
  EXPECT_EQ(image[1], 1u);
  EXPECT_EQ(arena[1].word[3], 4u);
}

}  // namespace
}  // namespace tandem
