// What a dispatcher brings that hands one leaf's requests to one thread together (HeteroKV, III-C2). A batch of reads
// is answered as its requests come, each with a descent of its own; and sorted by leaf, as the dispatcher's request
// queue and head table would have it. The dispatcher here is a processor's: it finds each request's leaf in an array of
// the leaves' first keys, and sorts by counting. With share 16 the thread is one of 16 that each have leaves of their
// own, and is given requests for these alone.
//
// Nanoseconds a request: `as_they_come`, of all leaves; `find`, `sort` and `answer` of the dispatched ones. Each is the
// second of two turns: the first one leaves its lines in the caches. `gain`: the first by the sum of the rest.
// `gain_if_free`: by `answer` alone, as if an accelerator did the rest at no cost.
#include <benchmark/benchmark.h>

#include <array>
#include <numeric>
#include <span>

#include "index/hash_tree/tree_bench_items.hpp"

namespace tandem::tree_bench {
namespace {

constexpr std::uint32_t together = 8, ahead = 2 * together, turn_requests = 1 << 19;

// In the key's order, zeros behind a shorter one.
std::uint64_t number_of(std::string_view key) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, key.data(), std::min(key.size(), sizeof bytes));
  return __builtin_bswap64(bytes);
}

struct Request {
  explicit Request(std::string_view key) : fingerprint(fingerprint_of(key, 1)) {
    std::copy_n(key.begin(), sizeof bytes, bytes);
  }
  std::string_view key() const { return {bytes, sizeof bytes}; }
  std::uint64_t number() const { return number_of(key()); }

  Fingerprint fingerprint;
  char bytes[8];
};
using Requests = std::span<const Request>;

// Where a request's answer is looked for.
struct Place {
  const Leaf* leaf = nullptr;
  Location candidate = no_location;
};

void fetch_bucket(const HashTree& tree, const Request& request, const Place& place) {
  const IndexView view = tree.buckets_of(*place.leaf);
  prefetch_read(view.buckets + view.first(request.fingerprint));
}

void fetch_item(Items& all, const HashTree& tree, const Request& request, Place& place) {
  place.candidate = tree.candidate_in(place.leaf, request.fingerprint);
  prefetch_read(all.heap.at(place.candidate));
}

std::uint64_t value_of(Items& all, const Request& request, const Place& place) {
  const Item* const item = all.heap.at(place.candidate);
  if (!settled_version(item).is_live() || !item->has_key(request.key())) std::abort();
  std::uint64_t value = 0;
  std::memcpy(&value, item->value(), sizeof value);
  return value;
}

// The leaves of eight requests, level by level, as the fast lane descends.
void descend(const HashTree& tree, const Request* request, Place* place) {
  std::array<const InnerNode*, together> node;
  node.fill(tree.root());
  for (std::uint32_t level = node[0]->level;; --level) {
    std::array<void* const*, together> child;
    for (std::uint32_t i = 0; i < together; ++i) {
      child[i] = node[i]->children() + node[i]->child_of(request[i].key(), false);
      prefetch_read(static_cast<const void*>(child[i]));
    }
    for (std::uint32_t i = 0; i < together; ++i) {
      if (level == 0) {
        place[i].leaf = static_cast<const Leaf*>(*child[i]);
      } else {
        node[i] = static_cast<const InnerNode*>(*child[i]);
        prefetch_read(node[i]);
        prefetch_read(node[i]->last_heads);
      }
    }
    if (level == 0) return;
  }
}

// Buckets and items of later requests are fetched meanwhile. leaves_of(i) finds the leaves of requests i to i + 7.
template <class LeavesOf>
std::uint64_t answer(Items& all, const HashTree& tree, Requests requests, std::vector<Place>& places,
                     LeavesOf leaves_of) {
  const auto count = static_cast<std::uint32_t>(requests.size());
  std::uint64_t sum = 0;
  for (std::uint32_t at = 0; at < count + 2 * ahead; at += together) {
    if (at < count) leaves_of(at);
    for (std::uint32_t i = at; i < at + together; ++i) {
      if (i < count) fetch_bucket(tree, requests[i], places[i]);
      if (i >= ahead && i - ahead < count) fetch_item(all, tree, requests[i - ahead], places[i - ahead]);
      if (i >= 2 * ahead) sum += value_of(all, requests[i - 2 * ahead], places[i - 2 * ahead]);
    }
  }
  return sum;
}

class Dispatcher {
 public:
  explicit Dispatcher(const HashTree& tree) {
    add(*tree.root());
    first_keys_[0] = 0;
    heads_.resize(leaves_.size() + 1);
  }

  std::uint32_t leaves() const { return static_cast<std::uint32_t>(leaves_.size()); }
  std::uint32_t leaf_of(std::uint64_t number) const {
    const auto above = std::upper_bound(first_keys_.begin(), first_keys_.end(), number);
    return static_cast<std::uint32_t>(above - first_keys_.begin()) - 1;
  }
  // Eight searches side by side, without branches.
  void find(Requests requests, std::vector<std::uint32_t>& leaf) const {
    for (std::uint32_t at = 0; at < requests.size(); at += together) {
      std::array<std::uint32_t, together> first{};
      for (std::uint32_t n = leaves(); n > 1; n -= n / 2) {
        for (std::uint32_t i = 0; i < together; ++i)
          first[i] += first_keys_[first[i] + n / 2] <= requests[at + i].number() ? n / 2 : 0;
      }
      std::copy(first.begin(), first.end(), leaf.begin() + at);
    }
  }
  // Fills the queue, each leaf's requests together, and the leaf of each.
  void sort(Requests requests, const std::vector<std::uint32_t>& leaf, std::vector<Request>& queue,
            std::vector<Place>& places) {
    std::fill(heads_.begin(), heads_.end(), 0);
    for (const std::uint32_t l : leaf) ++heads_[l + 1];
    std::partial_sum(heads_.begin(), heads_.end(), heads_.begin());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::uint32_t to = heads_[leaf[i]]++;
      queue[to] = requests[i];
      places[to].leaf = leaves_[leaf[i]];
    }
  }

 private:
  void add(const InnerNode& node) {
    for (std::uint32_t i = 0; i <= node.count; ++i) {
      const void* const child = node.children()[i];
      if (node.level != 0) {
        add(*static_cast<const InnerNode*>(child));
      } else {
        leaves_.push_back(static_cast<const Leaf*>(child));
        first_keys_.push_back(number_of(leaves_.back()->low()));
      }
    }
  }

  std::vector<const Leaf*> leaves_;
  std::vector<std::uint64_t> first_keys_;
  std::vector<std::uint32_t> heads_;
};

// As many as a turn has, of the first `leaves` leaves.
std::vector<Request> draw(Items& all, const Dispatcher& dispatcher, std::uint32_t leaves) {
  std::vector<std::string_view> of_leaves;
  for (const Location l : all.location) {
    const std::string_view key = all.heap.at(l)->key();
    if (dispatcher.leaf_of(number_of(key)) < leaves) of_leaves.push_back(key);
  }
  std::mt19937 random(3);
  std::vector<Request> drawn;
  for (std::uint32_t i = 0; i < turn_requests; ++i) drawn.emplace_back(of_leaves[random() % of_leaves.size()]);
  return drawn;
}

void BM_dispatch(benchmark::State& state) {
  Items& all = items(state.range(2) != 0);
  const auto tree = make_tree<HashTree>(all, static_cast<std::uint32_t>(state.range(0)));
  add_all(all, *tree);
  Dispatcher dispatcher(*tree);
  const auto batch = static_cast<std::uint32_t>(state.range(1));
  const std::uint32_t leaves = std::max(dispatcher.leaves() / static_cast<std::uint32_t>(state.range(3)), 1u);
  const std::vector<Request> any = draw(all, dispatcher, dispatcher.leaves()), own = draw(all, dispatcher, leaves);
  std::vector<Request> queue(own.begin(), own.begin() + batch);
  std::vector<Place> places(batch);
  std::vector<std::uint32_t> leaf(batch);
  std::uint64_t as_they_come = 0, find = 0, sort = 0, by_leaf = 0, sum = 0;
  const auto each_batch = [batch](const std::vector<Request>& requests, auto answer_batch) {
    for (const bool is_counted : {false, true}) {
      for (std::uint32_t at = 0; at < turn_requests; at += batch)
        answer_batch(Requests(requests.data() + at, batch), is_counted ? 1U : 0U);
    }
  };
  for (auto _ : state) {
    all.epoch.enter();
    each_batch(any, [&](Requests requests, std::uint64_t counted) {
      const std::uint64_t begin = cycles_now();
      sum += answer(all, *tree, requests, places,
                    [&](std::uint32_t i) { descend(*tree, requests.data() + i, places.data() + i); });
      as_they_come += counted * (cycles_now() - begin);
    });
    each_batch(own, [&](Requests requests, std::uint64_t counted) {
      const std::uint64_t begin = cycles_now();
      dispatcher.find(requests, leaf);
      const std::uint64_t found = cycles_now();
      dispatcher.sort(requests, leaf, queue, places);
      const std::uint64_t sorted = cycles_now();
      sum += answer(all, *tree, queue, places, [](std::uint32_t) {});
      find += counted * (found - begin);
      sort += counted * (sorted - found);
      by_leaf += counted * (cycles_now() - sorted);
    });
    all.epoch.exit();
  }
  benchmark::DoNotOptimize(sum);
  const auto ns = [&](std::uint64_t ticks) {
    return static_cast<double>(ticks) * ns_per_tick() / (static_cast<double>(state.iterations()) * turn_requests);
  };
  state.counters["as_they_come"] = ns(as_they_come);
  state.counters["find"] = ns(find);
  state.counters["sort"] = ns(sort);
  state.counters["answer"] = ns(by_leaf);
  state.counters["gain"] = ns(as_they_come) / ns(find + sort + by_leaf);
  state.counters["gain_if_free"] = ns(as_they_come) / ns(by_leaf);
  state.counters["leaves"] = leaves;
}
BENCHMARK(BM_dispatch)
    ->ArgsProduct({{512, 32768}, {1024, 8192, 65536}, {0, 1}, {1, 16}})
    ->ArgNames({"cells", "batch", "placed", "share"})
    ->MinTime(0.2);

}  // namespace
}  // namespace tandem::tree_bench
