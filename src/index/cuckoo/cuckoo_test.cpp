#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <thread>

#include "base/hash.hpp"
#include "index/cuckoo/cuckoo_check.hpp"
#include "index/cuckoo/displacement.hpp"
#include "index/cuckoo/lanes_scalar.hpp"
#include "index/lanes_of_test.hpp"
#include "index/shard.hpp"

#define TD_LANES_NAMESPACE canary
#include "index/cuckoo/cuckoo-inl.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t checks = is_sanitized ? 1 : 10;

// A shard is a table like any other: bucket numbers without their low bits, which both buckets of a key share.
TEST(IndexView, BothBucketsOfAKeyAreOfOneShard) {
  std::uint64_t random = 1;
  for (std::uint32_t bits = 1; bits <= shard_bits_max; ++bits) {
    for (const std::uint32_t mask : {0xfu, 0xffu, 0xfffffu, 0xffffffffu}) {
      const IndexView all{nullptr, mask, bits};
      for (std::uint32_t i = 0; i < 10'000; ++i) {
        random = mix_bits(random + 1);
        const Fingerprint f{static_cast<std::uint32_t>(random) | 1u, static_cast<std::uint32_t>(random >> 32)};
        const Shard shard{Shard::number_of(f, bits), bits};
        const IndexView own{nullptr, shard.local_mask(mask)};
        for (const bool second : {false, true}) {
          const std::uint32_t b = second ? all.second(f) : all.first(f);
          const std::uint32_t local = second ? own.second(shard.local(f)) : own.first(shard.local(f));
          ASSERT_LE(b, mask);
          ASSERT_EQ(b & ((1u << bits) - 1), shard.number);
          ASSERT_EQ(b >> bits, local);
          const std::uint64_t cell = std::uint64_t{b} * bucket_cells + i % bucket_cells;
          ASSERT_EQ(Shard::number_of_cell(cell, bits), shard.number);
          ASSERT_EQ(shard.local_cell(cell), std::uint64_t{local} * bucket_cells + i % bucket_cells);
          ASSERT_EQ(shard.cell(shard.local_cell(cell)), cell);
        }
        ASSERT_NE(all.first(f), all.second(f));
      }
    }
  }
}

TEST(Cell, PacksBothWords) {
  const Cell c = Cell::of(0xfedcba98, 0x76543210);
  EXPECT_EQ(c.signature(), 0xfedcba98u);
  EXPECT_EQ(c.location(), 0x76543210u);
  EXPECT_FALSE(c.empty());
  EXPECT_TRUE(empty_cell.empty());
}

TEST(IndexView, OtherBucketIsAnotherOneAndLeadsBack) {
  std::uint64_t random = 1;
  for (const std::uint32_t mask : {1u, 3u, 7u, 0xffu, 0xfffffu, 0xffffffffu}) {
    const IndexView view{nullptr, mask};
    for (int i = 0; i < 10'000; ++i) {
      random = mix_bits(random + 1);
      const auto signature = static_cast<std::uint32_t>(random) | 1u;
      const auto b = static_cast<std::uint32_t>(random >> 32) & mask;
      ASSERT_NE(view.other(b, signature), b);
      ASSERT_LE(view.other(b, signature), mask);
      ASSERT_EQ(view.other(view.other(b, signature), signature), b);
    }
  }
}

TEST(IndexView, GrowthKeepsTheLowBitsOfBothBuckets) {
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::uint64_t h = mix_bits(i);
    const Fingerprint f{static_cast<std::uint32_t>(h) | 1u, static_cast<std::uint32_t>(h >> 32)};
    const IndexView small{nullptr, 0xff}, large{nullptr, 0x1ff};
    ASSERT_EQ(large.first(f) & 0xff, small.first(f));
    ASSERT_EQ(large.second(f) & 0xff, small.second(f));
  }
}

[[maybe_unused]] const testing::Environment* const lanes_of_test =
    testing::AddGlobalTestEnvironment(new LanesOfTest([](std::string_view) {
      try {
        static_cast<void>(cuckoo_ops_named(""));
        return true;
      } catch (const std::invalid_argument&) {
        return false;
      }
    }));

TEST(CuckooOps, WidestIsChosenAndNamesAreChecked) {
  ASSERT_FALSE(cuckoo_ops_built().empty());
  const CuckooOps* widest = nullptr;
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (!ops->supported()) {
      EXPECT_THROW(cuckoo_ops_named(ops->name), std::invalid_argument);
      continue;
    }
    EXPECT_EQ(&cuckoo_ops_named(ops->name), ops);
    widest = ops;
  }
  EXPECT_EQ(&cuckoo_ops_best(), widest);
  EXPECT_THROW(cuckoo_ops_named("abacus"), std::invalid_argument);
}

TEST(CuckooOps, EnvironmentOverrides) {
  for (const std::string_view wanted : {"scalar", "scalar-of-a-lane"}) {
    const WithLanes lanes(wanted);
    EXPECT_EQ(cuckoo_ops_named("").name, "scalar");
  }
  {
    const WithLanes lanes("abacus");
    EXPECT_THROW(cuckoo_ops_named(""), std::invalid_argument);
  }
  const WithLanes lanes("");
  EXPECT_EQ(&cuckoo_ops_named(""), &cuckoo_ops_best());
}

// Every pattern of one signature, another one and empty cells that a bucket can hold.
TEST(CuckooOps, ProbeSeesEveryPattern) {
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (!ops->supported()) continue;
    for (std::uint32_t pattern = 0; pattern < 6561; ++pattern) {
      Bucket bucket{};
      std::uint32_t same = 0, empty = 0, rest = pattern;
      for (std::uint32_t i = 0; i < bucket_cells; ++i, rest /= 3) {
        // The other signature equals the first one's location, and shares its low and high half with it.
        const Cell cells[3] = {empty_cell, Cell::of(0x80000001, 0x80000000), Cell::of(0x80000000, 0x80000001)};
        bucket.cell[i] = cells[rest % 3].bits;
        empty |= static_cast<std::uint32_t>(rest % 3 == 0) << i;
        same |= static_cast<std::uint32_t>(rest % 3 == 1) << i;
      }
      const BucketMasks masks = ops->probe(&bucket, 0x80000001);
      ASSERT_EQ(masks.same, same) << ops->name;
      ASSERT_EQ(masks.empty, empty) << ops->name;
    }
  }
}

// The preferred cell is the signature's top three bits, then cyclically (Mega-KV 4.2); the second bucket is used once
// the first is full.
TEST(CuckooOps, InsertTakesTheEmptyCellNearestThePreferredOne) {
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (!ops->supported()) continue;
    CheckTable table(4);
    const Fingerprint f{0xa0000001, 2};  // preferred cell 5
    const std::uint32_t slots[] = {5, 6, 7, 0, 1, 2, 3, 4};
    for (std::uint32_t i = 0; i < 16; ++i) {
      ASSERT_TRUE(ops->insert(table.view(), f, i + 1));
      const Bucket& bucket = table.view().buckets[i < 8 ? table.view().first(f) : table.view().second(f)];
      ASSERT_EQ(bucket.cell[slots[i % 8]], Cell::of(f.signature, i + 1).bits) << ops->name << " " << i;
    }
    EXPECT_FALSE(ops->insert(table.view(), f, 17)) << "16 keys of one fingerprint fill both their buckets";
    EXPECT_EQ(table.cells_used(), 16u);
    EXPECT_FALSE(ops->erase(table.view(), f, 17));
    EXPECT_TRUE(ops->erase(table.view(), f, 9));
    EXPECT_EQ(table.count(Cell::of(f.signature, 9)), 0u);
  }
}

struct Differential {
  std::uint32_t buckets, signatures;
  double load;
  std::uint64_t operations;
};

class CuckooDifferential : public testing::TestWithParam<Differential> {};

TEST_P(CuckooDifferential, AllLanesAnswerLikeTheModel) {
  const Differential p = GetParam();
  CuckooCheck check(p.buckets, p.signatures);
  run_cuckoo_check(check, p.buckets, p.load, p.operations * checks, 42 + p.buckets);
  EXPECT_EQ(check.problem(), "");
  EXPECT_GE(check.operations(), p.operations * checks);
  if (p.signatures != 0) return;
  EXPECT_GE(static_cast<double>(check.items()), 0.9 * p.load * p.buckets * bucket_cells - 2);
  if (p.buckets > 64) {
    EXPECT_EQ(check.refused(), 0u) << "room up to load " << p.load;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CuckooDifferential,
                         testing::Values(Differential{2, 0, 0.8, 20'000}, Differential{4, 0, 0.9, 20'000},
                                         Differential{64, 0, 0.95, 40'000}, Differential{1024, 0, 0.5, 40'000},
                                         Differential{1024, 0, 0.95, 60'000}, Differential{8192, 0, 0.95, 60'000},
                                         // equal signatures: a few in the whole table
                                         Differential{2, 1, 0.9, 20'000}, Differential{64, 3, 0.8, 20'000},
                                         Differential{1024, 64, 0.9, 40'000}),
                         [](const auto& test) {
                           return "Buckets" + std::to_string(test.param.buckets) + "Signatures" +
                                  std::to_string(test.param.signatures) + "Load" +
                                  std::to_string(static_cast<int>(test.param.load * 100));
                         });

// --- a displaced entry goes to its own other bucket ---

constexpr std::uint32_t fill_buckets = checks == 1 ? 1024 : 4096;

struct UnderTheInsertersHash {  // the published bug
  static std::uint32_t target(IndexView index, std::uint32_t from, Cell, Fingerprint inserted) {
    return index.other(from, inserted.signature);
  }
};

// Share of the keys that can no longer be found after filling a table to `load`.
template <class Rule>
double lost_by_insert(double load) {
  CheckTable table(fill_buckets);
  const auto keys = static_cast<std::uint32_t>(load * fill_buckets * bucket_cells);
  std::uint32_t lost = 0;
  const auto fingerprint = [](std::uint32_t key) {
    const std::uint64_t h = mix_bits(key);
    return Fingerprint{static_cast<std::uint32_t>(h >> 32) | 1u, static_cast<std::uint32_t>(h)};
  };
  for (std::uint32_t key = 1; key <= keys; ++key)
    canary::insert<Rule>(ScalarLanes{}, table.view(), fingerprint(key), key);
  for (std::uint32_t key = 1; key <= keys; ++key) {
    lost += canary::search_both(ScalarLanes{}, table.view(), fingerprint(key)) != key;
  }
  return static_cast<double>(lost) / keys;
}

TEST(Displacement, NoKeyIsLost) {
  for (const double load : {0.5, 0.9, 0.95}) EXPECT_EQ(lost_by_insert<canary::ToOwnOtherBucket>(load), 0.0) << load;
}

TEST(Displacement, CanaryTheWrongHashLosesKeys) { EXPECT_GT(lost_by_insert<UnderTheInsertersHash>(0.9), 0.02); }

// Lanes that let other tiles run first: a function is called before each attempt to clear a cell.
struct InterruptedLanes : ScalarLanes {
  using Before = void (*)(void* state, std::uint64_t* cell);
  Before before;
  void* state;
  Cell cas(std::uint64_t* p, Cell expected, Cell desired) const {
    if (desired.empty()) before(state, p);
    return ScalarLanes::cas(p, expected, desired);
  }
};
static_assert(Lanes<InterruptedLanes>);

// Two tiles copy one cell to its other bucket. The first clears the original, a third moves the second's copy back to
// the original place. The second still has one copy to clear.
TEST(Displacement, ACellThatSeveralMoveStaysOnce) {
  const CheckTable table(64);
  const IndexView view = table.view();
  const std::uint32_t from = 5, slot = 3;
  const Cell victim = Cell::of(0x12345678, 99);
  Bucket& target = view.buckets[view.other(from, victim.signature())];
  for (std::uint32_t i = 0; i < bucket_cells; ++i) view.buckets[from].cell[i] = Cell::of(i + 1, i + 1).bits;
  struct Others {
    std::uint64_t* original;
    std::uint64_t* first_copy;
    std::uint64_t victim;
    int clears = 0;
  } others{&view.buckets[from].cell[slot], &target.cell[4], victim.bits};
  *others.original = victim.bits;
  const InterruptedLanes lanes{{},
                               [](void* state, std::uint64_t* cell) {
                                 Others& o = *static_cast<Others*>(state);
                                 ++o.clears;
                                 if (o.clears == 1) {
                                   *o.first_copy = o.victim;
                                   *o.original = 0;
                                 } else if (o.clears == 2) {
                                   *o.original = o.victim;
                                   *cell = 0;
                                 }
                               },
                               &others};
  EXPECT_TRUE(canary::displace<canary::ToOwnOtherBucket>(lanes, view, {1, from}, from, slot));
  EXPECT_GT(others.clears, 2);
  EXPECT_EQ(table.count(victim), 1u);
  EXPECT_EQ(table.cells_used(), bucket_cells);
}

// The host's method: the shortest path first, moves from its end.
template <class Rule>
double lost_by_paths(double load, std::uint32_t& moves) {
  CheckTable table(fill_buckets);
  const IndexView view = table.view();
  const auto keys = static_cast<std::uint32_t>(load * fill_buckets * bucket_cells);
  std::uint32_t lost = 0;
  const auto fingerprint = [](std::uint32_t key) {
    const std::uint64_t h = mix_bits(key);
    return Fingerprint{static_cast<std::uint32_t>(h >> 32) | 1u, static_cast<std::uint32_t>(h)};
  };
  const auto claim = [&](Fingerprint f, std::uint32_t key) {
    const Cell c = Cell::of(f.signature, key);
    return canary::claim(ScalarLanes{}, view.buckets + view.first(f), c) ||
           canary::claim(ScalarLanes{}, view.buckets + view.second(f), c);
  };
  for (std::uint32_t key = 1; key <= keys; ++key) {
    const Fingerprint f = fingerprint(key);
    if (claim(f, key)) continue;
    BasicDisplacementPath<Rule> path;
    if (!path.find(view, f)) {
      ++lost;
      continue;
    }
    while (!path.at_root()) {
      const DisplacementMove m = path.step();
      EXPECT_EQ(view.buckets[m.to_bucket].cell[m.to_slot], 0u);
      view.buckets[m.to_bucket].cell[m.to_slot] = view.buckets[m.from_bucket].cell[m.from_slot];
      view.buckets[m.from_bucket].cell[m.from_slot] = 0;
      ++moves;
    }
    EXPECT_TRUE(claim(f, key));
  }
  for (std::uint32_t key = 1; key <= keys; ++key) {
    lost += canary::search_both(ScalarLanes{}, view, fingerprint(key)) != key;
  }
  return static_cast<double>(lost) / keys;
}

TEST(DisplacementPath, NoKeyIsLostAndPathsAreShort) {
  std::uint32_t moves = 0;
  EXPECT_EQ(lost_by_paths<OwnOtherBucket>(0.95, moves), 0.0);
  EXPECT_GT(moves, 0u);
  EXPECT_LT(moves, fill_buckets * bucket_cells / 2) << "breadth first moves few cells";
}

TEST(DisplacementPath, CanaryTheWrongHashLosesKeys) {
  std::uint32_t moves = 0;
  EXPECT_GT(lost_by_paths<UnderTheInsertersHash>(0.9, moves), 0.02);
}

// --- lock-free inserts and erases of different keys, as by the tiles of one launch ---

TEST(CuckooThreads, ConcurrentInsertsAndErasesLoseNothing) {
  constexpr std::uint32_t threads = 4, buckets = 2048;
  constexpr std::uint32_t keys_each = buckets * bucket_cells * 9 / 10 / threads;
  for (const CuckooOps* ops : cuckoo_ops_built()) {
    if (!ops->supported()) continue;
    for (std::uint64_t round = 0; round < 3 * checks; ++round) {
      CheckTable table(buckets);
      const auto fingerprint = [round](std::uint32_t location) {
        const std::uint64_t h = mix_bits(location + (round << 32));
        return Fingerprint{static_cast<std::uint32_t>(h >> 32) | 1u, static_cast<std::uint32_t>(h)};
      };
      std::atomic<std::uint32_t> refused{0}, not_erased{0};
      const auto run = [&](auto body) {
        std::vector<std::thread> pool;
        for (std::uint32_t t = 0; t < threads; ++t) {
          pool.emplace_back([&, t] {
            for (std::uint32_t k = 0; k < keys_each; ++k) body(1 + t * keys_each + k);
          });
        }
        for (std::thread& t : pool) t.join();
      };
      run([&](std::uint32_t location) { refused += !ops->insert(table.view(), fingerprint(location), location); });
      ASSERT_EQ(refused, 0u);
      ASSERT_EQ(table.cells_used(), threads * keys_each) << ops->name << ": a key lies in two cells, or in none";
      for (std::uint32_t l = 1; l <= threads * keys_each; ++l) {
        const Fingerprint f = fingerprint(l);
        std::uint32_t found = 0;
        ops->search_both(table.view(), &f, 1, &found, nullptr);
        ASSERT_EQ(found, l);
      }
      run([&](std::uint32_t location) { not_erased += !ops->erase(table.view(), fingerprint(location), location); });
      ASSERT_EQ(not_erased, 0u);
      ASSERT_EQ(table.cells_used(), 0u);
    }
  }
}

}  // namespace
}  // namespace tandem
