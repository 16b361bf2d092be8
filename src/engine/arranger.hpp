// The arranger: rewrites small items of ranges that are scanned often next to each other, in the background
// (task/arrange.hpp says why and how).
//
// It moves items for some microseconds, then rests 64 times as long: 1.6 % of one processor at most, and a scan of what
// it works on meets a change only now and then.
//
// Thread safety: all members from any thread.
#pragma once
#include <atomic>
#include <thread>

#include "task/arrange.hpp"

namespace tandem {

class Arranger {
 public:
  // `context`, with an ordered index, is used by the arranger alone. Both outlive it. Starts the thread; throws
  // std::system_error.
  Arranger(Context& context, ScatteredRanges& scattered);
  ~Arranger();
  Arranger(const Arranger&) = delete;
  Arranger& operator=(const Arranger&) = delete;

 private:
  void loop();
  bool rest(std::chrono::nanoseconds time) const;  // false: it must stop

  Context& context_;
  ScatteredRanges& scattered_;
  task::RangeArranger arranger_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tandem
