#include "planner/controller.hpp"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

constexpr double at_once = 0.75;  // what runs is given up without a probe for what takes so much of it
constexpr double drifted = 0.1;   // what runs has changed so much that the others may have, too
constexpr double near = 1.15;     // options that take more are probed rarely
constexpr double credit_max_ns = 50e6;
constexpr unsigned windows_smoothed = 8, windows_meant = 64;
constexpr std::uint64_t probe_again_ns = 20'000'000;
constexpr double set_share_min = 0.005;  // below, upkeep costs nothing
constexpr std::uint64_t returns_a_trial = 50, return_took_max_ns = 2'000'000'000;

// Of time, that the faster one saves; negative: of the second one.
double gain(double first_ns, double second_ns) noexcept {
  return first_ns < second_ns ? 1 - first_ns / second_ns : second_ns / first_ns - 1;
}

}  // namespace

PlanChoice Controller::decide(const PlannerSeen& seen) noexcept {
  if (now_ns_ == 0) window_from_ns_ = left_ns_ = seen.now_ns;
  now_ns_ = std::max(now_ns_, seen.now_ns);
  predicted_ns_ = seen.predicted_ns;
  if (seen.level != reached_) turn(seen.level);
  overflows_ += static_cast<unsigned>(seen.overflows);
  if (!seen.has_device) {
    constexpr unsigned overflows_max = 2;
    if (choice_.level != UpkeepLevel::none && overflows_ >= overflows_max) want(UpkeepLevel::none);
    break_off();
    run(is_resting() ? host_alone : host_beside, PlanReason::no_device);
    return choice_;
  }
  PlannerSeen window;
  if (!take_window(seen, window)) {
    look_idle();
    return choice_;
  }
  if (!enter_class(window)) return wait_for_class();
  if (is_interrupted(window)) return choice_;
  if (settles_ != 0) {
    --settles_;
  } else if (!probe_) {
    learn(window);
  } else if (!probe_->add(window.use)) {
    end_probe();
  }
  weigh();
  choose();
  return choice_;
}

bool Controller::take_window(const PlannerSeen& seen, PlannerSeen& window) noexcept {
  for (std::size_t o = 0; o < options_.size(); ++o) window_.use[o] += seen.use[o];
  window_.queries += seen.queries;
  window_.sets += seen.sets;
  window_.bytes += seen.bytes;
  window_.workers = std::max(window_.workers, seen.workers);
  if (window_.queries < rules_.queries_min) return false;
  window = window_;
  window_ = {};
  workers_ = std::max(window.workers, 1u);
  std::uint64_t busy_ns = 0;
  for (const PlanUse& use : window.use) busy_ns += use.worker_ns;
  window_ns_ = std::min(busy_ns / workers_, now_ns_ - window_from_ns_);
  window_from_ns_ = now_ns_;
  return true;
}

// Whether it took so much longer than the last one that the process may have been stopped: then it says nothing of the
// plans. Seldom, as a plan may stall, too.
bool Controller::is_interrupted(const PlannerSeen& window) noexcept {
  constexpr double much = 3;
  std::uint64_t worker_ns = 0;
  for (const PlanUse& use : window.use) worker_ns += use.worker_ns;
  const double ns = static_cast<double>(worker_ns) / static_cast<double>(window.queries);
  const bool is_long =
      last_window_ns_ > 0 && ns > much * last_window_ns_ && since_interrupted_ == windows_between_interrupts;
  since_interrupted_ = is_long ? 0 : std::min(since_interrupted_ + 1, windows_between_interrupts);
  if (!is_long) last_window_ns_ = ns;
  return is_long;
}

// A replica that rests costs nothing to follow what nobody writes, and is wanted when load comes back.
void Controller::look_idle() noexcept {
  if (is_resting() && choice_.level == UpkeepLevel::none && now_ns_ - window_from_ns_ >= rules_.idle_ns &&
      now_ns_ - left_ns_ >= idle_pause_ns_) {
    idle_pause_ns_ = std::min(2 * idle_pause_ns_, rules_.trial_pause_max_ns);
    want(device_level());
  }
}

// False: the window is of no class, as one with a change in it, or the first one of a new class.
bool Controller::enter_class(const PlannerSeen& window) noexcept {
  const auto queries = static_cast<double>(window.queries);
  const double set_share = static_cast<double>(std::min(window.sets, window.queries)) / queries;
  const double bytes = static_cast<double>(window.bytes) / queries;
  classes_.look(set_share, bytes);
  set_share_ = set_share;
  const auto is_of = [&](const LoadClass& c) { return classes_.is_of(c, set_share, bytes, queries); };
  if (class_ != nullptr && is_of(*class_)) {
    other_.reset();
    LoadClasses::follow(*class_, set_share, bytes, now_ns_);
    return true;
  }
  LoadClass* found = classes_.find(set_share, bytes, queries);
  if (found == nullptr) {
    const bool is_again = other_ && is_of(*other_);
    other_ = LoadClass{.set_share = set_share, .query_bytes = bytes};
    if (!is_again) return false;
    found = &classes_.add(set_share, bytes, now_ns_);
    found->trial_pause_ns = first_trial_pause_ns();
    found->trial_at_ns = now_ns_ + found->trial_pause_ns;
    counts_.classes = classes_.count();
  }
  other_.reset();
  class_ = found;
  class_->seen_ns = now_ns_;
  begin_class();
  return true;
}

// Of a new class: sooner where returns have cost little.
std::uint64_t Controller::first_trial_pause_ns() const noexcept {
  if (return_took_ns_ == 0) return rules_.trial_pause_ns;
  return std::min(std::max(returns_a_trial * return_took_ns_, rules_.undecided_ns), rules_.trial_pause_ns);
}

// What runs goes on, but for a probe.
PlanChoice Controller::wait_for_class() noexcept {
  if (probe_) {
    break_probe();
    run_known(base_);
  }
  if (!is_resting()) give_up_undecided();
  return choice_;
}

// The host's is never wrong, and where it is written a level of which nothing is learned for long.
void Controller::give_up_undecided() noexcept {
  undecided_ns_ += window_ns_;
  if (undecided_ns_ < rules_.undecided_ns) return;
  if (base_ != host_beside) run(host_beside, PlanReason::unknown);
  if (set_share_ > set_share_min && choice_.level != UpkeepLevel::none) want(UpkeepLevel::none);
}

void Controller::begin_class() noexcept {
  break_probe();
  takes_turns_ = false;
  learned_ = 0;
  run_known(best());
  settles_ = rules_.settle;
}

void Controller::turn(UpkeepLevel reached) noexcept {
  reached_ = reached;
  break_off();
  overflows_ = 0;
  if (is_resting()) return run(host_alone, PlanReason::rests);
  if (is_returning_) {
    return_took_ns_ = std::min(now_ns_ - wanted_ns_, return_took_max_ns);
    trials_from_ns_ = std::min(trials_from_ns_, now_ns_ + first_trial_pause_ns());
  }
  is_returning_ = false;
  if (class_ != nullptr && is_trial_) {
    for (KnownOption& known : class_->options) known.is_compared = false;
  }
  run_known(best());
}

PlanReason Controller::reason_of(std::uint8_t option) const noexcept {
  if (is_resting()) return PlanReason::rests;
  if (class_ == nullptr) return PlanReason::none;
  if (class_->options[option].is_compared) return PlanReason::measured;
  return predicted_ns_[option] > 0 ? PlanReason::predicted : PlanReason::unknown;
}

void Controller::run(std::uint8_t option, PlanReason reason) noexcept {
  if (option != base_ || choice_.even != option || choice_.odd != option) {
    settles_ = rules_.settle;
    learned_ = 0;
    expected_ns_ = 0;
  }
  base_ = choice_.even = choice_.odd = option;
  choice_.reason = reason;
}

void Controller::run_known(std::uint8_t option) noexcept { run(option, reason_of(option)); }

// What runs, with all workers.
void Controller::learn(const PlannerSeen& window) noexcept {
  credit_ns_ = std::min(credit_ns_ + rules_.budget * static_cast<double>(window_ns_), credit_max_ns);
  const PlanUse& use = window.use[base_];
  if (2 * use.queries < rules_.queries_min) return;
  const double ns = use.ns_a_query();
  KnownOption& known = class_->options[base_];
  const bool is_new = known.ns == 0 || (learned_ == 0 && now_ns_ - known.measured_ns > rules_.certified_ns);
  known.recent_ns = learned_ == 0 ? ns : known.recent_ns + (ns - known.recent_ns) / windows_smoothed;
  known.ns = is_new ? ns : known.ns + (ns - known.ns) / std::clamp(learned_, windows_smoothed, windows_meant);
  known.measured_ns = now_ns_;
  const double busy =
      static_cast<double>(use.device_ns * workers_) / static_cast<double>(std::max<std::uint64_t>(use.worker_ns, 1));
  device_busy_ = learned_ == 0 ? busy : device_busy_ + (busy - device_busy_) / windows_smoothed;
  ++learned_;
  if (learned_ == windows_smoothed) learn_crowding(known);
  if (known.reference_ns == 0) known.reference_ns = known.ns;
  if (learned_ < windows_smoothed) return;
  if (std::abs(known.recent_ns / known.ns - 1) > drifted) known.ns = known.recent_ns;
  if (std::abs(known.ns / known.reference_ns - 1) <= drifted) return;
  known.reference_ns = known.ns;
  for (KnownOption& other : class_->options) {
    other.probe_pause_ns = rules_.probe_pause_ns;
    other.probe_at_ns = std::min(other.probe_at_ns, now_ns_);
  }
}

// A probe had half of the workers, and so perhaps a device that was not full.
void Controller::learn_crowding(KnownOption& known) noexcept {
  if (expected_ns_ == 0) return;
  constexpr double crowding_max = 20;
  const double more = known.ns / expected_ns_;
  if (more > 1 + drifted || known.crowding > 1) known.crowding = std::clamp(known.crowding * more, 1.0, crowding_max);
  expected_ns_ = 0;
}

// Then half of the workers take less of it each, and do not show what all of them take.
bool Controller::fills_device() const noexcept {
  constexpr double full = 0.5;
  return options_[base_].on_device && device_busy_ > full;
}

void Controller::begin_probe(std::uint8_t other) noexcept {
  // Of two that fill the device each would wait for the other one's work.
  const bool by_host = fills_device() && options_[other].on_device;
  probe_.emplace(by_host ? host_beside : base_, other, rules_.settle, takes_turns_ || workers_ == 1);
  probe_from_ns_ = now_ns_;
  ++counts_.probes;
}

// What was seen of it says nothing of what comes now.
void Controller::break_off() noexcept {
  break_probe();
  window_ = {};
  window_from_ns_ = now_ns_;
}

// Nobody knows what it has cost.
void Controller::break_probe() noexcept {
  if (probe_) credit_ns_ -= static_cast<double>(now_ns_ - probe_from_ns_) / 2;
  probe_.reset();
}

void Controller::end_probe() noexcept {
  const PlanProbe::Result result = probe_->result();
  const std::uint8_t option = probe_->other(), partner = probe_->base();
  const auto took = static_cast<double>(now_ns_ - probe_from_ns_);
  probe_.reset();
  KnownOption &base = class_->options[base_], &other = class_->options[option];
  other.probe_pause_ns = std::clamp(2 * other.probe_pause_ns, rules_.probe_pause_ns, rules_.probe_pause_max_ns);
  other.probe_at_ns = now_ns_ + other.probe_pause_ns;
  if (!result.is_valid) {
    // One of the halves has no load. One worker after the other then; else it is given up.
    other.is_compared = takes_turns_;
    takes_turns_ = true;
    return run_known(base_);
  }
  const bool is_absolute = fills_device();
  KnownOption& beside = class_->options[partner];
  if (partner != base_) {
    beside.ns = std::exp(result.base_log);
    beside.measured_ns = now_ns_;
  }
  const double half = std::exp(result.other_log) * (is_absolute ? 1 : beside.ns / std::exp(result.base_log));
  other.ns = std::max(half, result.device_ns * workers_) * other.crowding;
  other.measured_ns = now_ns_;
  other.reference_ns = other.ns;
  base.reference_ns = base.ns;
  beside.is_compared = other.is_compared = true;
  const double loss = took * (std::max(0.0, 1 - base.ns / half) + std::max(0.0, 1 - base.ns / beside.ns)) / 2;
  credit_ns_ -= loss;
  counts_.probe_loss_ns += static_cast<std::uint64_t>(loss * workers_);
  constexpr double drift = 0.01;  // of the machine, since what runs ran
  const double error = is_absolute ? std::max(result.error, drift) : result.error;
  const double log_gain = std::log(base.ns / other.ns), least = -std::log(1 - rules_.margin);
  if (log_gain - rules_.errors * error > least) {
    ++counts_.takeovers;
    run(option, PlanReason::measured);
    expected_ns_ = other.ns;
    return;
  }
  if (log_gain > least) {  // it may be, but that was not sure
    other.probe_pause_ns = rules_.probe_pause_ns;
    other.probe_at_ns = now_ns_ + probe_again_ns;
  }
  run(base_, PlanReason::measured);
}

// Of an option of the present level; 0: nothing is known. Predictions have the scale of what was measured of the host.
double Controller::cost_of(std::uint8_t option) const noexcept {
  const KnownOption& known = class_->options[option];
  if (known.ns > 0) return known.ns;
  const double host = class_->options[host_beside].ns;
  const double scale = host > 0 && predicted_ns_[host_beside] > 0 ? host / predicted_ns_[host_beside] : 1;
  return predicted_ns_[option] * scale;
}

// Of the present level. The host's, if nothing is known of that.
std::uint8_t Controller::best() const noexcept {
  if (is_resting()) return host_alone;
  std::uint8_t best = host_beside;
  if (class_ == nullptr || cost_of(host_beside) == 0) return best;
  for (std::uint8_t o = host_beside + 1; o < count(); ++o) {
    if (cost_of(o) > 0 && cost_of(o) < cost_of(best)) best = o;
  }
  return best;
}

std::optional<std::uint8_t> Controller::due() const noexcept {
  const KnownOption& base = class_->options[base_];
  for (std::uint8_t o = host_beside; o < count(); ++o) {
    const KnownOption& known = class_->options[o];
    if (o == base_) continue;
    // Loads that change all the time are the host's.
    if (!known.is_compared && credit_ns_ > -credit_max_ns) return o;
    if (!known.is_compared) continue;
    if (now_ns_ < known.probe_at_ns) continue;
    if (known.ns < (1 - rules_.margin) * base.ns) return o;
    if (credit_ns_ <= 0) continue;
    // What took much more has a longer pause, but not for good: it may have been measured beside something else.
    const double times = known.ns / base.ns;
    const double pause_ns = times < near ? 0 : times * static_cast<double>(known.probe_pause_ns);
    if (now_ns_ - known.measured_ns >= std::min(static_cast<std::uint64_t>(pause_ns), rules_.probe_pause_max_ns))
      return o;
  }
  return std::nullopt;
}

// Within the present level.
void Controller::choose() noexcept {
  if (is_resting()) return run(host_alone, PlanReason::rests);
  if (probe_) {
    choice_.even = probe_->arms().even;
    choice_.odd = probe_->arms().odd;
    return;
  }
  if (settles_ != 0 || learned_ == 0) return;
  const std::uint8_t option = best();
  const double present = class_->options[base_].ns, possible = cost_of(option);
  if (option != base_ && class_->options[option].ns > 0 && possible < at_once * present) {
    ++counts_.reverts;
    return run_known(option);
  }
  KnownOption& rival = class_->options[option];
  if (option != base_ && rival.is_compared && possible < (1 - rules_.margin) * present &&
      now_ns_ - rival.measured_ns < rules_.certified_ns)
    rival.probe_at_ns = std::min(rival.probe_at_ns, rival.measured_ns + probe_again_ns);
  choice_.reason = reason_of(base_);
  const auto other = due();
  if (!other) return;
  begin_probe(*other);
  choice_ = {choice_.level, probe_->arms().even, probe_->arms().odd, PlanReason::probe};
}

bool Controller::are_compared() const noexcept {
  if (options_.size() == host_beside + 1) return class_->options[host_beside].ns > 0;
  return std::all_of(class_->options.begin() + host_beside, class_->options.begin() + options_.size(),
                     [](const KnownOption& known) { return known.is_compared; });
}

// What the host would take without a device; 0: nothing is known.
double Controller::alone_ns() const noexcept {
  constexpr double least = 0.1;  // of what it takes beside one
  const KnownOption& alone = class_->options[host_alone];
  if (alone.ns > 0 && now_ns_ - alone.measured_ns < rules_.trial_pause_max_ns) return alone.ns;
  const double beside = class_->options[host_beside].ns;
  if (beside == 0) return 0;
  const double by_price = std::max(beside - class_->set_share * rules_.set_ns, least * beside);
  if (predicted_ns_[host_alone] == 0 || predicted_ns_[host_beside] == 0) return by_price;
  return std::min(by_price, beside * predicted_ns_[host_alone] / predicted_ns_[host_beside]);
}

// What the best option with a device would take, while it rests; 0: nothing is known.
double Controller::beside_ns() const noexcept {
  double best = 0;
  for (std::uint8_t o = host_beside + 1; o < count(); ++o) {
    const KnownOption& known = class_->options[o];
    double ns = 0;
    if (known.is_compared && now_ns_ - known.measured_ns < rules_.trial_pause_max_ns) {
      ns = known.ns;
    } else if (predicted_ns_[o] > 0 && predicted_ns_[host_alone] > 0) {
      ns = class_->options[host_alone].ns * predicted_ns_[o] / predicted_ns_[host_alone];
    }
    if (ns > 0 && (best == 0 || ns < best)) best = ns;
  }
  return best;
}

// Of loads that change all the time each has a trial, one after the other.
bool Controller::begin_trial() noexcept {
  if (now_ns_ < std::max(class_->trial_at_ns, trials_from_ns_)) return false;
  trials_from_ns_ = now_ns_ + first_trial_pause_ns();
  return true;
}

void Controller::weigh() noexcept {
  if (is_resting() != (choice_.level == UpkeepLevel::none)) return;  // on the way
  if (is_resting()) return weigh_alone();
  if (!are_compared() || class_->options[base_].ns == 0) return give_up_undecided();
  undecided_ns_ = 0;
  weigh_beside();
}

void Controller::weigh_beside() noexcept {
  const bool is_written = class_->set_share > set_share_min;
  // What a SET pays may be more than was thought.
  if (is_written && class_->options[host_alone].ns == 0 && begin_trial()) return want(UpkeepLevel::none);
  const double present = class_->options[base_].ns, alone = alone_ns();
  double gained = alone == 0 ? 0 : gain(present, alone);
  if (std::abs(gained) < rules_.margin) gained = 0;
  // No device is of use, and what is written is to be followed nevertheless.
  if (base_ == host_beside && is_written) gained = std::min(gained, -rules_.margin);
  const auto most = static_cast<double>(rules_.leave_ns);
  balance_ns_ = std::clamp(balance_ns_ + gained * static_cast<double>(window_ns_), -most, most);
  if (balance_ns_ <= -most) return want(UpkeepLevel::none);
  if (is_trial_ && balance_ns_ >= most) {
    is_trial_ = false;
    class_->trial_pause_ns = first_trial_pause_ns();
  }
}

void Controller::weigh_alone() noexcept {
  const double alone = class_->options[host_alone].ns, beside = beside_ns();
  const double gained = alone == 0 || beside == 0 ? 0 : gain(beside, alone);
  if (std::abs(gained) >= rules_.margin)
    balance_ns_ = std::max(balance_ns_ + gained * static_cast<double>(window_ns_), 0.0);
  if (balance_ns_ >= static_cast<double>(std::max(rules_.return_ns, return_took_ns_))) return want(device_level());
  if (!begin_trial()) return;
  is_trial_ = true;
  ++counts_.trials;
  want(device_level());
}

void Controller::want(UpkeepLevel level) noexcept {
  undecided_ns_ = 0;
  choice_.level = level;
  balance_ns_ = 0;
  overflows_ = 0;
  if (level != UpkeepLevel::none) {
    ++counts_.returns;
    is_returning_ = true;
    wanted_ns_ = now_ns_;
    return;
  }
  ++counts_.rests;
  is_returning_ = false;
  left_ns_ = now_ns_;
  if (class_ == nullptr) return;
  if (is_trial_) class_->trial_pause_ns = std::min(2 * class_->trial_pause_ns, rules_.trial_pause_max_ns);
  is_trial_ = false;
  class_->trial_at_ns = now_ns_ + std::max(class_->trial_pause_ns, returns_a_trial * return_took_ns_);
}

}  // namespace tandem
