// Keys' popularity by a sketch of all keys that come (CountMin) and a table of candidates, the keys that came most:
// lines of four, where a key whose estimate exceeds the line's least replaces it. Only candidates become hot.
//
// A key is hot from some samples on, or from some times the mean of all keys on, whichever is more: by samples alone a
// part of uniform traffic would be hot by luck. All counts are halved each window of samples, so that hot means lately;
// windows are longer while the hot share is steady. When it falls the requests are about other keys: the sketch begins
// anew, fewer samples suffice for a while, and hot keys stay only as long as no others need their place.
//
// Source: TinyLFU (Einziger, Friedman, Manes 2017). Departures: windows are of samples, not of time, so a slow load is
// learned as exactly as a fast one; estimates of candidates are not limited by the sketch's bytes.
#pragma once
#include <vector>

#include "router/count_min.hpp"
#include "router/popularity.hpp"

namespace tandem {

struct SketchOptions {
  std::uint32_t hot_keys = 16 * 1024;                       // at most
  std::uint32_t bits = 22;                                  // of a row's number of counters
  std::uint32_t hot_samples = 16;                           // least number that a key must have
  std::uint32_t learning_samples = 8;                       // the same, in the first samples after a change
  std::uint32_t learning = 1 << 20;                         // how many are the first ones
  std::uint32_t window = 2 << 20, steady_window = 8 << 20;  // samples after which counts are halved
  std::uint32_t judged = 16 * 1024;                         // samples of a look at the hot share
  double mean_times = 4;                                    // of the mean key, that a hot one must have
};

class SketchPopularity final : public Popularity {
 public:
  // A candidate's counts since they were last halved, which are half of what they were.
  struct Counted {
    std::uint32_t reads = 0, writes = 0, estimate = 0;
    bool is_hot = false;
  };

  explicit SketchPopularity(const SketchOptions& options) noexcept;
  bool is_valid() const noexcept { return sketch_.is_valid() && lines_ != nullptr; }  // false: no memory
  static std::uint64_t bytes_for(const SketchOptions& options) noexcept;

  void train(std::span<const Sample> samples) noexcept override;
  Shadow shadow(const HotRule& rule) noexcept override;
  std::unique_ptr<HotModel> model() noexcept override;
  void adopt() noexcept override;
  double hot_share() const noexcept override { return steady_; }

  // All 0: no candidate.
  Counted counted(Fingerprint f) const noexcept;
  std::uint64_t shifts() const noexcept { return shifts_; }

 private:
  static constexpr std::uint32_t line_keys = 4;
  static constexpr std::uint32_t ahead = 16;  // samples whose lines are under way

  struct Candidate {
    static constexpr std::uint32_t chosen_bit = 1, hot_bit = 2, one = 4;

    std::uint64_t key;  // 0: none
    std::uint16_t reads, writes;
    std::uint32_t state;  // the estimate, and whether it is hot, and in the shadow

    std::uint32_t estimate() const noexcept { return state / one; }
    void set_estimate(std::uint32_t estimate) noexcept { state = estimate * one | state % one; }
    bool is_hot() const noexcept { return (state & hot_bit) != 0; }
    bool is_chosen() const noexcept { return (state & chosen_bit) != 0; }
    void choose(bool is_chosen) noexcept { state = (state & ~chosen_bit) | (is_chosen ? chosen_bit : 0); }
    void adopt() noexcept { state = (state & ~hot_bit) | (is_chosen() ? hot_bit : 0); }
    // What a threshold is held against: who is hot stays so down to half of it.
    std::uint32_t score() const noexcept { return is_hot() ? 2 * estimate() : estimate(); }
    void count(bool write) noexcept;
    void halve() noexcept;
  };
  struct alignas(cache_line_bytes) Line {
    Candidate keys[line_keys];
  };
  static_assert(sizeof(Line) == cache_line_bytes);

  static std::uint32_t lines_for(std::uint32_t hot_keys) noexcept;
  Line& line_of(std::uint64_t key) const noexcept { return lines_[key >> 18 & (line_count_ - 1)]; }
  template <class F>
  void for_each(F f) const noexcept {
    for (std::uint32_t l = 0; l < line_count_; ++l) {
      for (Candidate& c : lines_[l].keys) {
        if (c.key != 0) f(c);
      }
    }
  }
  void train(Sample sample) noexcept;
  void offer(Line& line, Sample sample, std::uint32_t estimate) noexcept;
  void judge() noexcept;
  void begin_anew() noexcept;
  void fade() noexcept;
  double least_samples(const HotRule& rule) const noexcept;
  double choose(double least, const HotRule& rule) noexcept;

  const SketchOptions options_;
  CountMin sketch_;
  const std::uint32_t line_count_;
  std::unique_ptr<Line[]> lines_;
  std::unique_ptr<std::uint32_t[]> scores_;  // room for those of all candidates
  std::uint64_t counted_ = 0;                // samples in the sketch, halved with it
  std::uint64_t since_fade_ = 0, learning_left_;
  std::uint64_t lost_ = 0;  // samples of hot keys that lost their line, since the last adoption
  std::uint32_t lost_keys_ = 0;
  std::uint32_t judged_ = 0, judged_hot_ = 0;   // samples of the present look
  double steady_ = 0, expected_ = 0;            // hot share; by estimates, until it was looked at
  bool is_fresh_ = true, is_unsteady_ = false;  // since the last adoption; since the last halving
  double threshold_ = 0;                        // of the last shadow
  std::uint64_t shifts_ = 0;
};

}  // namespace tandem
