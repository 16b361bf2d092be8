#include "rtl/rtl_dispatcher.hpp"

#include <Vdispatcher.h>

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "rtl/simulation.hpp"

namespace tandem::rtl {
namespace {

constexpr uint32_t width = 2;  // requests a cycle
constexpr uint64_t patience_cycles = 200'000;
enum Operation : uint8_t { op_insert = 1, op_remove = 2 };

}  // namespace

struct RtlDispatcher::State {
  using Batches = std::vector<std::vector<uint32_t>>;

  Simulation<Vdispatcher> sim;
  Stalls stalls;
  Random random{1};

  // What of a dispatch is on its way.
  struct Progress {
    size_t batch = 0;  // the one that goes in
    size_t at = 0;     // its next key
    size_t inserted = 0;
    uint64_t insert_from = 0;  // the cycle in which the next one is offered
    Dispatched open;
    std::vector<Dispatched> done;
  };

  bool stalled(uint32_t percent) { return random() % 100 < percent; }

  void offer_block(const Batches& batches, const Progress& progress) {
    sim->in_valid = progress.batch < batches.size() && !stalled(stalls.in_percent);
    if (!sim->in_valid) return;
    const auto& keys = batches[progress.batch];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < width && progress.at + i < keys.size(); i++) {
      mask |= 1U << i;
      set_field(sim->in_keys, i, 32, keys[progress.at + i]);
    }
    sim->in_mask = static_cast<uint8_t>(mask);
    sim->in_last = progress.at + width >= keys.size();
  }

  void offer_insert(std::span<const Separator> inserts, const Progress& progress) {
    sim->update_valid = progress.inserted < inserts.size() && sim.cycles() >= progress.insert_from;
    if (!sim->update_valid) return;
    sim->update_op = op_insert;
    sim->update_key = inserts[progress.inserted].key;
    sim->update_leaf = inserts[progress.inserted].leaf;
  }

  void take_block(const Batches& batches, Progress& progress) {
    auto& open = progress.open;
    open.leaves.resize(batches[progress.done.size()].size());
    for (uint32_t i = 0; i < width; i++) {
      if ((sim->out_heads >> i & 1U) != 0) {
        open.heads.push_back({static_cast<uint16_t>(field(sim->out_head_leaves, i, 16)),
                              static_cast<uint16_t>(field(sim->out_head_counts, i, 16)),
                              static_cast<uint16_t>(field(sim->out_head_firsts, i, 16))});
      }
      if ((sim->out_mask >> i & 1U) == 0) continue;
      const auto number = static_cast<uint16_t>(field(sim->out_indices, i, 16));
      open.queue.push_back(number);
      open.leaves.at(number) = static_cast<uint16_t>(field(sim->out_leaves, i, 16));
    }
    if (!sim->out_last) return;
    open.ended = sim.cycles() + 1;
    progress.done.push_back(std::move(open));
    open = {};
  }

  // Offers one update until the copies have it, or refuse it.
  Update update(uint8_t op, Separator separator) {
    sim->in_valid = 0;
    sim->out_ready = 1;
    sim->update_valid = 1;
    sim->update_op = op;
    sim->update_key = separator.key;
    sim->update_leaf = separator.leaf;
    for (uint64_t limit = sim.cycles() + patience_cycles; sim.cycles() < limit;) {
      sim.settle();
      const bool ready = sim->update_ready;
      const bool refused = sim->update_refused;
      sim.tick();
      if (!ready) continue;
      sim->update_valid = 0;
      return refused ? Update::refused : Update::done;
    }
    throw std::logic_error("rtl: an update is not accepted");
  }
};

RtlDispatcher::RtlDispatcher() : state_(std::make_unique<State>()) {}
RtlDispatcher::~RtlDispatcher() = default;

bool RtlDispatcher::load(std::span<const Separator> separators) {
  assert(!separators.empty() && separators[0].key == 0);
  state_->sim->update_valid = 0;
  state_->sim->in_valid = 0;
  state_->sim.reset();
  for (const auto& separator : separators) {
    if (insert(separator) != Update::done) return false;
  }
  return true;
}

RtlDispatcher::Update RtlDispatcher::insert(Separator separator) { return state_->update(op_insert, separator); }

RtlDispatcher::Update RtlDispatcher::remove(uint32_t key) {
  state_->update(op_remove, {key, 0});
  auto& sim = state_->sim;
  for (uint64_t limit = sim.cycles() + patience_cycles; sim.cycles() < limit;) {
    const bool done = sim->remove_done;
    const bool found = sim->remove_found;
    sim.tick();
    if (done) return found ? Update::done : Update::not_found;
  }
  throw std::logic_error("rtl: a remove does not end");
}

RtlDispatcher::Dispatched RtlDispatcher::dispatch(std::span<const uint32_t> keys) {
  return std::move(dispatch_all({{keys.begin(), keys.end()}})[0]);
}

std::vector<RtlDispatcher::Dispatched> RtlDispatcher::dispatch_all(const State::Batches& batches) {
  return dispatch_all(batches, {}, 0);
}

std::vector<RtlDispatcher::Dispatched> RtlDispatcher::dispatch_all(const State::Batches& batches,
                                                                   std::span<const Separator> inserts,
                                                                   uint32_t gap_cycles) {
  auto& sim = state_->sim;
  assert(std::ranges::all_of(batches, [](const auto& keys) { return keys.size() <= batch_max; }));
  State::Progress progress;
  const uint64_t limit = sim.cycles() + patience_cycles * (batches.size() + 1);
  while (progress.done.size() < batches.size() || progress.inserted < inserts.size()) {
    if (sim.cycles() > limit) throw std::logic_error("rtl: a batch does not end");
    state_->offer_block(batches, progress);
    state_->offer_insert(inserts, progress);
    sim->out_ready = !state_->stalled(state_->stalls.out_percent);
    sim.settle();
    if (sim->out_valid && sim->out_ready) state_->take_block(batches, progress);
    if (sim->update_valid && sim->update_ready) {
      progress.inserted += 1;
      progress.insert_from = sim.cycles() + 1 + state_->random() % (2 * gap_cycles + 1);
    }
    if (sim->in_valid && sim->in_ready) {
      progress.at += width;
      if (sim->in_last) {
        progress.batch += 1;
        progress.at = 0;
      }
    }
    sim.tick();
  }
  sim->in_valid = 0;
  sim->update_valid = 0;
  return std::move(progress.done);
}

void RtlDispatcher::stall(Stalls stalls) {
  state_->stalls = stalls;
  state_->random.seed(stalls.seed);
}

uint64_t RtlDispatcher::cycles() const { return state_->sim.cycles(); }

bool RtlDispatcher::copies_differ() const { return state_->sim->differ; }

}  // namespace tandem::rtl
