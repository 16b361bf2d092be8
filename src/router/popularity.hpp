// What makes a model: samples go in, and now and then it tells which keys it would call hot (the paper's shadow model).
// Without a clock, a thread or memory that grows.
//
// Source: KVCG 7 ("other models can also be used in the Router").
//
// Thread safety: one thread.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "router/hot_model.hpp"
#include "router/samples.hpp"

namespace tandem {

// From which share of the requests on a key is hot.
struct HotRule {
  // This share, of as many samples as are sure at least; 0: the least at which the hot keys have room and are known to
  // be hot, times 2^octaves.
  double threshold = 0;
  double octaves = 0;
  bool none = false;  // no key is hot
};

// What a model would be now, beside the last one that was adopted.
struct Shadow {
  std::uint32_t size = 0, entered = 0, left = 0;  // keys, or bins
  double moved = 0;                               // the share of all requests that enters or leaves
  double threshold = 0;                           // the share that made the least one hot
};

class Popularity {
 public:
  virtual ~Popularity() = default;
  Popularity(const Popularity&) = delete;
  Popularity& operator=(const Popularity&) = delete;

  virtual void train(std::span<const Sample> samples) noexcept = 0;
  // A key (a bin) becomes hot at the threshold and stays so down to half of it.
  virtual Shadow shadow(const HotRule& rule) noexcept = 0;
  // The last shadow's; nullptr: no memory. REQUIRES: nothing was trained since.
  virtual std::unique_ptr<HotModel> model() noexcept = 0;
  // That model is published: what it calls hot is hot from here on.
  virtual void adopt() noexcept = 0;
  // Of the last requests, the share that the adopted model calls hot.
  virtual double hot_share() const noexcept = 0;

 protected:
  Popularity() = default;
};

}  // namespace tandem
